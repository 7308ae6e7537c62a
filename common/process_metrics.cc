#include "common/process_metrics.h"

#include <array>
#include <cmath>

#include "absl/strings/ascii.h"
#include "absl/strings/str_cat.h"
#include "common/coordinator.h"

namespace psring {
namespace {

double Seconds(int64_t nanoseconds) { return static_cast<double>(nanoseconds) * 1e-9; }

}  // namespace

ProcessMetrics::ProcessMetrics(const Member& member)
    : member_(member),
      step_seconds_({0.0005, 0.001, 0.0025, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1,
                     2.5, 5, 10}),
      staleness_({0, 1, 2, 4, 8, 16, 32, 64}) {}

void ProcessMetrics::SetJob(const JobSpec& spec) {
  MutexLock lock(&mutex_);
  job_ = spec.job();
  arm_ = spec.arm().name();
}

void ProcessMetrics::Add(const RecordBatch& batch) {
  MutexLock lock(&mutex_);
  for (const StepRecord& step : batch.steps()) AddStep(step);
  for (const ContributionRecord& contribution : batch.contributions()) {
    AddContribution(contribution);
  }
  for (const EvaluationRecord& evaluation : batch.evaluations()) {
    accuracy_ = evaluation.accuracy();
  }
}

void ProcessMetrics::AddStep(const StepRecord& step) {
  ++steps_;
  samples_ += step.samples();
  skipped_buckets_ += step.skipped_buckets();
  if (step.samples() > 0 && !std::isnan(step.loss())) loss_ = step.loss();
  step_seconds_.Add(Seconds(step.total_ns()));
  int64_t rest = step.total_ns();
  const std::array<std::pair<const char*, int64_t>, 5> parts = {
      {{"data", step.data_ns()},
       {"forward", step.forward_ns()},
       {"backward", step.backward_ns()},
       {"exposed", step.exposed_ns()},
       {"optimizer", step.optimizer_ns()}}};
  for (const auto& [part, nanoseconds] : parts) {
    parts_ns_[part] += nanoseconds;
    rest -= nanoseconds;
  }
  parts_ns_["unaccounted"] += rest;
}

void ProcessMetrics::AddContribution(const ContributionRecord& contribution) {
  ++contributions_[{contribution.rank(), contribution.outcome()}];
  clock_lags_[contribution.rank()] = contribution.clock_lag();
  if (contribution.outcome() == ContributionRecord::APPLIED) {
    staleness_.Add(
        static_cast<double>(contribution.version() - contribution.version_read()));
  }
}

void ProcessMetrics::SetTraffic(std::function<ExchangeTraffic()> traffic) {
  MutexLock lock(&traffic_mutex_);
  if (traffic_) last_traffic_ = traffic_();
  traffic_ = std::move(traffic);
}

std::vector<prometheus::MetricFamily> ProcessMetrics::Collect() const {
  MetricFamilies families({{"process", ToString(member_)}});
  {
    MutexLock lock(&mutex_);
    families.AddGauge("psring_process_info", "What this process is part of.",
                      {{"job_name", job_}, {"arm", arm_}}, 1);
    if (member_.role() == WORKER) {
      CollectWorker(&families);
    } else {
      CollectServer(&families);
    }
  }
  CollectTraffic(&families);
  return families.Take();
}

void ProcessMetrics::CollectWorker(MetricFamilies* families) const {
  families->AddCounter("psring_steps_total", "Steps that this worker has made.", {},
                       static_cast<double>(steps_));
  families->AddCounter("psring_samples_total", "Samples in these steps.", {},
                       static_cast<double>(samples_));
  families->AddHistogram("psring_step_seconds", "Time of a step.", {}, step_seconds_);
  for (const auto& [part, nanoseconds] : parts_ns_) {
    families->AddCounter("psring_step_part_seconds_total",
                         "Time of all steps, by what it went into; exposed: waiting for "
                         "communication.",
                         {{"part", part}}, Seconds(nanoseconds));
  }
  families->AddCounter("psring_skipped_buckets_total",
                       "Buckets whose gradients were not finite and counted as zero.", {},
                       static_cast<double>(skipped_buckets_));
  if (loss_) {
    families->AddGauge("psring_training_loss",
                       "Mean loss of this worker's samples in its last step.", {},
                       *loss_);
  }
  if (accuracy_) {
    families->AddGauge("psring_test_accuracy_ratio",
                       "Share of the test set that the last evaluation found right.", {},
                       *accuracy_);
  }
}

void ProcessMetrics::CollectServer(MetricFamilies* families) const {
  for (const auto& [key, count] : contributions_) {
    families->AddCounter(
        "psring_contributions_total",
        "Gradients of a slot that workers have pushed, by what became of them.",
        {{"worker", absl::StrCat(key.first)},
         {"outcome",
          absl::AsciiStrToLower(ContributionRecord::Outcome_Name(key.second))}},
        static_cast<double>(count));
  }
  for (const auto& [rank, lag] : clock_lags_) {
    families->AddGauge("psring_clock_lag_steps",
                       "How far a worker was ahead of the slowest when it was given the "
                       "parameters of its last contribution.",
                       {{"worker", absl::StrCat(rank)}}, static_cast<double>(lag));
  }
  families->AddHistogram("psring_gradient_staleness_versions",
                         "Version that a contribution was applied onto, minus the one "
                         "that it was computed from.",
                         {}, staleness_);
}

void ProcessMetrics::CollectTraffic(MetricFamilies* families) const {
  std::optional<ExchangeTraffic> traffic;
  {
    MutexLock lock(&traffic_mutex_);
    traffic = traffic_ ? traffic_() : last_traffic_;
  }
  if (!traffic) return;
  struct Bytes {
    const char* kind;
    const char* direction;
    int64_t bytes;
  };
  const std::array<Bytes, 6> all = {{{"step", "out", traffic->payload_out},
                                     {"step", "in", traffic->payload_in},
                                     {"initial", "out", traffic->initial_out},
                                     {"initial", "in", traffic->initial_in},
                                     {"snapshot", "out", traffic->snapshot_out},
                                     {"snapshot", "in", traffic->snapshot_in}}};
  for (const Bytes& bytes : all) {
    families->AddCounter("psring_payload_bytes_total",
                         "Tensor bytes that this process has sent or received: of steps, "
                         "of the first parameters, of snapshots.",
                         {{"kind", bytes.kind}, {"direction", bytes.direction}},
                         static_cast<double>(bytes.bytes));
  }
  if (traffic->retransmissions) {
    families->AddCounter("psring_retransmitted_segments_total",
                         "TCP segments of the ring's links that were sent again.", {},
                         static_cast<double>(*traffic->retransmissions));
  }
}

}  // namespace psring
