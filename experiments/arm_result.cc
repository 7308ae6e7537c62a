#include "experiments/arm_result.h"

#include <algorithm>
#include <cmath>
#include <limits>

#include "common/job_plan.h"
#include "experiments/arm_mode.h"
#include "experiments/consistency_certificate.h"
#include "experiments/hosts/host_plan.h"
#include "experiments/hosts/host_settings.h"
#include "experiments/step_config.h"

namespace psring {
namespace {

constexpr int64_t kFinalLossSteps = 20;
// A loss that is the mean of fewer steps is too noisy to call an arm diverged.
constexpr int64_t kFewestLossSteps = 5;

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
      sum.not_ready += Milliseconds(step.not_ready_ns());
      sum.peer_late += Milliseconds(step.peer_late_ns());
      sum.on_wire += Milliseconds(step.on_wire_ns());
      sum.working += Milliseconds(step.working_ns());
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
          .not_ready = sum.not_ready / count,
          .peer_late = sum.peer_late / count,
          .on_wire = sum.on_wire / count,
          .working = sum.working / count,
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

Waiting WaitingOf(const ArmRecords& records) {
  int64_t total_ns = 0;
  int64_t exposed_ns = 0;
  std::map<int, int64_t> for_worker_ns;
  for (const auto& rank : records.steps) {
    for (const StepRecord& step : rank) {
      total_ns += step.total_ns();
      exposed_ns += step.exposed_ns();
      if (step.has_waited_for()) {
        for_worker_ns[step.waited_for()] += step.peer_late_ns();
      }
    }
  }
  if (total_ns == 0) return {};
  Waiting waiting;
  waiting.exposed = Seconds(exposed_ns) / Seconds(total_ns);
  for (const auto& [worker, ns] : for_worker_ns) {
    waiting.for_worker[worker] = Seconds(ns) / Seconds(total_ns);
    waiting.peer_late += waiting.for_worker[worker];
  }
  return waiting;
}

// Of the steps of one rank in which it had samples, and so a loss. They are as many in
// each, so that each counts the same.
struct Losses {
  double sum = 0;
  int64_t count = 0;
};

// Of the steps from `begin` to `end`.
Losses LossesOf(const std::vector<StepRecord>& rank, int64_t begin, int64_t end) {
  Losses losses;
  for (int64_t step = begin; step < end; ++step) {
    if (rank[step].samples() == 0) continue;
    losses.sum += rank[step].loss();
    ++losses.count;
  }
  return losses;
}

// Of at least one step with samples.
double MeanLoss(const std::vector<StepRecord>& rank, int64_t begin, int64_t end) {
  const Losses losses = LossesOf(rank, begin, end);
  return losses.sum / static_cast<double>(losses.count);
}

double FinalLoss(const ArmRecords& records) {
  double sum = 0;
  int64_t count = 0;
  for (const auto& rank : records.steps) {
    const int64_t steps = static_cast<int64_t>(rank.size());
    const int64_t begin = std::max<int64_t>(0, steps - kFinalLossSteps);
    const Losses losses = LossesOf(rank, begin, steps);
    sum += losses.sum;
    count += losses.count;
  }
  return count == 0 ? std::numeric_limits<double>::quiet_NaN()
                    : sum / static_cast<double>(count);
}

// Whether the mean over the last steps of all ranks is not below that over as many first
// ones; or, where a loss was high above the first of all, not clearly below that one:
// what blows up and then only guesses has a mean of its first steps that says nothing.
// False where a rank has too few steps.
bool StaysAboveItsStart(const ArmRecords& records) {
  constexpr double kBlownUp = 2;
  constexpr double kClearlyBelow = 0.9;
  double first = 0;
  double last = 0;
  double start = std::numeric_limits<double>::infinity();
  double highest = 0;
  for (const auto& rank : records.steps) {
    const int64_t steps = static_cast<int64_t>(rank.size());
    const int64_t counted = std::min(kFinalLossSteps, steps / 2);
    if (counted < kFewestLossSteps) return false;
    first += MeanLoss(rank, 0, counted);
    last += MeanLoss(rank, steps - counted, steps);
    // A rank that comes late starts from what the others have made of the parameters.
    start = std::min(start, rank.front().loss());
    for (const StepRecord& step : rank) {
      if (step.samples() > 0) highest = std::max(highest, step.loss());
    }
  }
  if (records.steps.empty()) return false;
  const double end = last / static_cast<double>(records.steps.size());
  return last >= first || (highest > kBlownUp * start && end > kClearlyBelow * start);
}

bool AllLossesAreFinite(const ArmRecords& records) {
  for (const auto& rank : records.steps) {
    for (const StepRecord& step : rank) {
      if (step.samples() > 0 && !std::isfinite(step.loss())) return false;
    }
  }
  return std::all_of(records.evaluations.begin(), records.evaluations.end(),
                     [](const auto& point) { return std::isfinite(point.loss()); });
}

EvaluationPoint PointOf(const EvaluationRecord& evaluation, const JobSpec& spec,
                        const ArmRecords& records) {
  EvaluationPoint point{
      .step = evaluation.step(),
      .loss = evaluation.loss(),
      .accuracy = evaluation.accuracy(),
      .version_skew = evaluation.version_max() - evaluation.version_min()};
  const bool lockstep = InLockstep(spec);
  for (const auto& rank : records.steps) {
    // The last step that counts, if any.
    auto end = rank.begin();
    if (lockstep) {
      end += std::min<int64_t>(evaluation.step() - spec.restored().step(),
                               static_cast<int64_t>(rank.size()));
    } else {
      end = std::partition_point(rank.begin(), rank.end(), [&](const StepRecord& step) {
        return step.start_ns() + step.total_ns() <= evaluation.time_ns();
      });
    }
    if (end == rank.begin()) continue;
    const StepRecord& step = *(end - 1);
    point.seconds = std::max(point.seconds, Seconds(step.start_ns() + step.total_ns()));
    // A worker's payload comes from another worker, who has sent it already, or from a
    // server, which has no step records of its own.
    point.bytes += step.payload_out() + (spec.servers() > 0 ? step.payload_in() : 0);
  }
  if (evaluation.has_time_ns()) point.seconds = Seconds(evaluation.time_ns());
  return point;
}

Convergence ConvergenceOf(const JobSpec& spec, const ArmRecords& records,
                          const ArmResult& result) {
  if (!result.error.empty()) return Convergence::kDiverged;
  if (!result.learns) return Convergence::kFinished;
  if (!AllLossesAreFinite(records)) return Convergence::kDiverged;
  // What continues from a checkpoint may have learned long before its first step here.
  if (!spec.has_restored() && StaysAboveItsStart(records)) {
    return Convergence::kDiverged;
  }
  if (spec.experiment().training().target_accuracy() == 0) return Convergence::kFinished;
  return result.time_to_target_seconds ? Convergence::kReachedTarget
                                       : Convergence::kDidNotReach;
}

void Certify(const JobSpec& spec, const JobPlan& plan, const ArmRecords& records,
             ArmResult* result) {
  result->difference = FindReplicaDifference(spec, records);
  if (!result->error.empty()) {
    const Certificate none = {.verdict = Verdict::kNotApplicable,
                              .why = "the arm did not come to its end"};
    result->replica = result->traffic = result->memory = result->consistency = none;
    if (result->difference) result->replica = FailOf(*result->difference, spec, records);
    return;
  }
  result->replica = CertifyReplicas(spec, records);
  result->traffic = CertifyTraffic(spec, records, result->endpoints);
  result->memory_use = MemoryOf(spec, plan, records);
  result->memory = CertifyMemory(result->memory_use);
  result->consistency = CertifyConsistency(spec, records);
}

}  // namespace

const char* ToString(Convergence convergence) {
  switch (convergence) {
    case Convergence::kReachedTarget:
      return "reached target";
    case Convergence::kDidNotReach:
      return "did not reach";
    case Convergence::kDiverged:
      return "diverged";
    case Convergence::kFinished:
      return "finished";
  }
  return "";
}

ArmResult Summarize(const JobSpec& spec, const ArmRecords& records,
                    const absl::Status& outcome) {
  ArmResult result;
  result.name = spec.arm().name();
  result.mode = ModeOf(spec);
  result.reduction = DescribeReduction(spec);
  result.seed = spec.experiment().training().seed();
  if (!outcome.ok()) result.error = std::string(outcome.message());
  result.steps = spec.steps();
  if (spec.has_restored()) result.restored_step = spec.restored().step();
  result.workers = spec.workers();
  result.servers = spec.servers();
  result.step_ms = TimesOf(records);
  result.recording = CostOf(records);
  result.waiting = WaitingOf(records);
  result.communication = records.communication;
  result.learns = !spec.experiment().compute().has_emulated();
  result.wire = WireUseOf(spec, records);
  result.final_loss = FinalLoss(records);

  int64_t samples = 0;
  int64_t steps = 0;
  int64_t late = 0;
  double seconds = 0;
  for (const auto& rank : records.steps) {
    for (const StepRecord& step : rank) {
      samples += step.samples();
      seconds = std::max(seconds, Seconds(step.start_ns() + step.total_ns()));
      result.skipped_buckets += step.skipped_buckets();
      ++steps;
      late += step.late();
    }
  }
  if (steps > 0) {
    result.late_share = static_cast<double>(late) / static_cast<double>(steps);
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
      if (step.has_parameter_digest()) {
        result.digests[step.step()] = step.parameter_digest();
      }
    }
  }
  if (spec.arm().has_parameter_server() && (result.learns || !InLockstep(spec))) {
    if (!records.evaluations.empty()) {
      result.parameter_digest = records.evaluations.back().digest();
    }
  } else if (!result.digests.empty()) {
    result.parameter_digest = result.digests.rbegin()->second;
  }
  const JobPlan plan = PlanJob(spec);
  result.buckets = PlannedBuckets(spec, plan.buckets);
  const int64_t slots = static_cast<int64_t>(plan.slots.slots.size());
  result.contributions = SummarizeContributions(records, spec.workers(), slots);
  double made = 0;
  double applied = 0;
  for (const WorkerContributions& worker : result.contributions.workers) {
    made += worker.made;
    applied += worker.applied;
  }
  result.applied_samples_per_second =
      result.samples_per_second * (made == 0 ? 1 : applied / made);
  result.endpoints = TrafficOf(spec, records);
  result.server_imbalance = ServerImbalanceOf(result.endpoints);
  if (const Hosts* const hosts = HostsOf(spec)) {
    result.hosts = DescribeHosts(*hosts);
    result.link_usage = LinkUsageOf(spec, records, result.endpoints);
    if (result.link_usage && result.workers > 1 && result.error.empty()) {
      result.validity = ValidityOf(spec, *result.link_usage);
    }
  }
  result.convergence = ConvergenceOf(spec, records, result);
  Certify(spec, plan, records, &result);
  return result;
}

const Certificate* FailedCertificate(const ArmResult& result) {
  for (const Certificate* const certificate :
       {&result.replica, &result.traffic, &result.memory, &result.consistency}) {
    if (certificate->verdict == Verdict::kFail) return certificate;
  }
  return nullptr;
}

}  // namespace psring
