#include "experiments/arm_result.h"

#include <algorithm>
#include <cmath>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "common/job_plan.h"
#include "experiments/traffic_formula.h"

namespace psring {
namespace {

constexpr int64_t kFinalLossSteps = 20;

double Milliseconds(int64_t nanoseconds) {
  return static_cast<double>(nanoseconds) * 1e-6;
}
double Seconds(int64_t nanoseconds) { return static_cast<double>(nanoseconds) * 1e-9; }

// Nearest rank: the smallest value that at least `share` of all are not above.
// `sorted` is not empty.
double Percentile(const std::vector<double>& sorted, double share) {
  const double rank = std::ceil(share * static_cast<double>(sorted.size()));
  return sorted[static_cast<size_t>(std::max(rank, 1.0)) - 1];
}

StepTimes TimesOf(const ArmRecords& records) {
  std::vector<double> totals;
  StepTimes sum;
  for (const auto& rank : records.steps) {
    for (const StepRecord& step : rank) {
      totals.push_back(Milliseconds(step.total_ns()));
      const int64_t parts = step.data_ns() + step.forward_ns() + step.backward_ns() +
                            step.exposed_ns() + step.optimizer_ns();
      sum.mean += Milliseconds(step.total_ns());
      sum.data += Milliseconds(step.data_ns());
      sum.forward += Milliseconds(step.forward_ns());
      sum.backward += Milliseconds(step.backward_ns());
      sum.exposed += Milliseconds(step.exposed_ns());
      sum.optimizer += Milliseconds(step.optimizer_ns());
      sum.unaccounted += Milliseconds(step.total_ns() - parts);
    }
  }
  if (totals.empty()) return {};
  std::sort(totals.begin(), totals.end());
  const double count = static_cast<double>(totals.size());
  return {.p50 = Percentile(totals, 0.50),
          .p99 = Percentile(totals, 0.99),
          .mean = sum.mean / count,
          .data = sum.data / count,
          .forward = sum.forward / count,
          .backward = sum.backward / count,
          .exposed = sum.exposed / count,
          .optimizer = sum.optimizer / count,
          .unaccounted = sum.unaccounted / count};
}

RecordingCost CostOf(const ArmRecords& records) {
  int64_t total_ns = 0;
  int64_t recording_ns = 0;
  for (const auto& rank : records.steps) {
    for (const StepRecord& step : rank) {
      total_ns += step.total_ns();
      recording_ns += step.recording_ns();
    }
  }
  if (total_ns == 0) return {};
  const double total = Seconds(total_ns);
  return {.training_thread_share = Seconds(recording_ns) / total,
          .processor_share = absl::ToDoubleSeconds(records.recording) / total};
}

double FinalLoss(const ArmRecords& records) {
  double sum = 0;
  int64_t count = 0;
  for (const auto& rank : records.steps) {
    const int64_t steps = static_cast<int64_t>(rank.size());
    for (int64_t step = std::max<int64_t>(0, steps - kFinalLossSteps); step < steps;
         ++step) {
      sum += rank[step].loss();
      ++count;
    }
  }
  return count == 0 ? 0 : sum / static_cast<double>(count);
}

EvaluationPoint PointOf(const EvaluationRecord& evaluation, const JobSpec& spec,
                        const ArmRecords& records) {
  EvaluationPoint point{.step = evaluation.step(),
                        .seconds = 0,
                        .bytes = 0,
                        .loss = evaluation.loss(),
                        .accuracy = evaluation.accuracy()};
  for (const auto& rank : records.steps) {
    const StepRecord& step = rank.at(evaluation.step() - 1);
    point.seconds = std::max(point.seconds, Seconds(step.start_ns() + step.total_ns()));
    // A worker's payload comes from another worker, who has sent it already, or from a
    // server, which has no step records of its own.
    point.bytes += step.payload_out() + (spec.servers() > 0 ? step.payload_in() : 0);
  }
  return point;
}

std::vector<EndpointTraffic> TrafficOf(const JobSpec& spec, const ArmRecords& records) {
  std::vector<EndpointTraffic> endpoints;
  for (const EndpointFormula& formula : StepTraffic(spec, PlanJob(spec))) {
    EndpointTraffic endpoint;
    endpoint.name = formula.name;
    endpoint.role = formula.role;
    endpoint.formula_out = formula.out * spec.steps();
    endpoint.formula_in = formula.in * spec.steps();
    if (const auto it = records.traffic.find(formula.name); it != records.traffic.end()) {
      endpoint.payload_out = it->second.payload_out();
      endpoint.payload_in = it->second.payload_in();
      endpoint.initial_out = it->second.initial_out();
      endpoint.initial_in = it->second.initial_in();
    }
    endpoints.push_back(endpoint);
  }
  return endpoints;
}

Certificate CertifyTraffic(const JobSpec& spec, const ArmRecords& records,
                           const std::vector<EndpointTraffic>& endpoints) {
  if (spec.arm().has_local())
    return {.verdict = Verdict::kNotApplicable, .why = "one process"};
  for (const EndpointTraffic& endpoint : endpoints) {
    if (!records.traffic.contains(endpoint.name)) {
      return {.verdict = Verdict::kFail,
              .why = absl::StrCat(endpoint.name, " did not report its traffic")};
    }
    if (endpoint.payload_out != endpoint.formula_out ||
        endpoint.payload_in != endpoint.formula_in) {
      return {.verdict = Verdict::kFail,
              .why = absl::StrCat(endpoint.name, " sent ", endpoint.payload_out,
                                  " bytes where the formula says ", endpoint.formula_out,
                                  " and received ", endpoint.payload_in,
                                  " where it says ", endpoint.formula_in)};
    }
  }
  return {.verdict = Verdict::kPass,
          .why = "payload bytes equal the formula at every endpoint, in both directions"};
}

// Every step that a rank checked must have been checked alike by all; names the first
// that was not.
Certificate CertifyReplicas(const ArmRecords& records) {
  if (records.steps.size() < 2) {
    return {.verdict = Verdict::kNotApplicable, .why = "one replica"};
  }
  int64_t checked = 0;
  for (size_t step = 0; step < records.steps[0].size(); ++step) {
    const StepRecord& a = records.steps[0][step];
    for (size_t rank = 1; rank < records.steps.size(); ++rank) {
      const StepRecord& b = records.steps[rank].at(step);
      if (a.has_parameter_digest() != b.has_parameter_digest() ||
          a.parameter_digest() != b.parameter_digest()) {
        return {.verdict = Verdict::kFail,
                .why = absl::StrFormat(
                    "after step %d worker 0 has digest %016x, worker %d %016x", step,
                    a.parameter_digest(), rank, b.parameter_digest())};
      }
    }
    checked += a.has_parameter_digest();
  }
  return {.verdict = Verdict::kPass,
          .why = absl::StrCat(records.steps.size(), " ranks equal at ", checked,
                              " checked steps")};
}

// Whether two arms of one experiment must give the same bits. With two workers the sum
// has two terms, whose order does not matter.
bool MustBeEqual(const JobSpec& a, const JobSpec& b) {
  const auto has_ring_order = [](const JobSpec& spec) {
    return !spec.arm().has_parameter_server() || spec.workers() <= 2 ||
           spec.arm().parameter_server().sync().order() == Sync::RING;
  };
  return a.workers() == b.workers() && has_ring_order(a) && has_ring_order(b);
}

}  // namespace

std::string ModeOf(const JobSpec& spec) {
  switch (spec.arm().mode_case()) {
    case Arm::kParameterServer:
      return spec.arm().parameter_server().sync().order() == Sync::RING
                 ? "parameter server, sync, ring order"
                 : "parameter server, sync, rank order";
    case Arm::kRing:
      return "ring all-reduce";
    case Arm::kLocal:
      return "local";
    case Arm::MODE_NOT_SET:
      break;
  }
  return "none";
}

const char* ToString(Verdict verdict) {
  switch (verdict) {
    case Verdict::kPass:
      return "PASS";
    case Verdict::kFail:
      return "FAIL";
    case Verdict::kNotApplicable:
      return "not applicable";
  }
  return "";
}

ArmResult Summarize(const JobSpec& spec, const ArmRecords& records) {
  ArmResult result;
  result.name = spec.arm().name();
  result.mode = ModeOf(spec);
  result.steps = spec.steps();
  result.workers = spec.workers();
  result.servers = spec.servers();
  result.step_ms = TimesOf(records);
  result.recording = CostOf(records);
  result.final_loss = FinalLoss(records);

  int64_t samples = 0;
  double seconds = 0;
  for (const auto& rank : records.steps) {
    for (const StepRecord& step : rank) {
      samples += step.samples();
      seconds = std::max(seconds, Seconds(step.start_ns() + step.total_ns()));
    }
  }
  if (seconds > 0) result.samples_per_second = static_cast<double>(samples) / seconds;

  const double target = spec.experiment().training().target_accuracy();
  for (const EvaluationRecord& evaluation : records.evaluations) {
    result.evaluations.push_back(PointOf(evaluation, spec, records));
    const EvaluationPoint& point = result.evaluations.back();
    if (target > 0 && point.accuracy >= target && !result.time_to_target_seconds) {
      result.time_to_target_seconds = point.seconds;
    }
  }
  if (!records.steps.empty()) {
    for (const StepRecord& step : records.steps[0]) {
      if (!step.has_parameter_digest()) continue;
      result.digests[step.step()] = step.parameter_digest();
      result.parameter_digest = step.parameter_digest();
    }
  }
  result.endpoints = TrafficOf(spec, records);
  result.traffic = CertifyTraffic(spec, records, result.endpoints);
  result.replica = CertifyReplicas(records);
  return result;
}

void CompareReplicas(const std::vector<JobSpec>& specs, std::vector<ArmResult>* arms) {
  for (size_t i = 1; i < arms->size(); ++i) {
    for (size_t reference = 0; reference < i; ++reference) {
      if (!MustBeEqual(specs[i], specs[reference])) continue;
      Certificate& certificate = (*arms)[i].replica;
      if (certificate.verdict == Verdict::kFail) break;
      const std::string& name = (*arms)[reference].name;
      int64_t compared = 0;
      for (const auto& [step, digest] : (*arms)[i].digests) {
        const auto it = (*arms)[reference].digests.find(step);
        if (it == (*arms)[reference].digests.end()) continue;
        ++compared;
        if (it->second != digest) {
          certificate = {.verdict = Verdict::kFail,
                         .why = absl::StrFormat("after step %d the digest is %016x, that "
                                                "of arm %s %016x",
                                                step, digest, name, it->second)};
          break;
        }
      }
      if (certificate.verdict != Verdict::kFail && compared > 0) {
        certificate = {.verdict = Verdict::kPass,
                       .why = absl::StrCat(certificate.why, ", and to arm ", name, " at ",
                                           compared)};
      }
      break;
    }
  }
}

}  // namespace psring
