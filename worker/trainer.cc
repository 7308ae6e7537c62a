#include "worker/trainer.h"

#include <algorithm>
#include <span>
#include <utility>

#include "absl/strings/str_cat.h"
#include "common/arithmetic.h"
#include "common/digest.h"
#include "common/errors.h"
#include "common/status_macros.h"
#include "glog/logging.h"

namespace psring {

const char* ToString(TrainingPhase phase) {
  switch (phase) {
    case TrainingPhase::kStarting:
      return "starting";
    case TrainingPhase::kData:
      return "data";
    case TrainingPhase::kForward:
      return "forward";
    case TrainingPhase::kBackward:
      return "backward";
    case TrainingPhase::kWaiting:
      return "waiting";
    case TrainingPhase::kChecking:
      return "checking";
  }
  return "";
}

Trainer::Trainer(const Options& options, const Parts& parts, StepSink sink)
    : options_(options),
      parts_(parts),
      sink_(std::move(sink)),
      ready_(parts.buckets->buckets.size()),
      launched_(parts.buckets->buckets.size()) {}

absl::Status Trainer::Run() {
  const int64_t rows =
      parts_.sampler->WorkerBatch(/*step=*/0, options_.workers, options_.rank).size();
  ASSIGN_OR_RETURN(features_,
                   parts_.device->Allocate(rows * parts_.data->shape.features));
  labels_.resize(rows);
  // A step lasts until the next one starts, so that nothing falls between two: it begins
  // with handing over the record of the one before.
  absl::Duration start = parts_.time->Elapsed();
  absl::Duration recorded = start;
  bool last = options_.steps == 0;
  for (int64_t step = 0; !last; ++step) {
    step_.store(step, std::memory_order_relaxed);
    record_.Clear();
    record_.set_rank(options_.rank);
    record_.set_step(step);
    record_.set_samples(rows);
    record_.set_start_ns(absl::ToInt64Nanoseconds(start));
    record_.set_recording_ns(absl::ToInt64Nanoseconds(recorded - start));
    ASSIGN_OR_RETURN(const StepReport report, Step(step, recorded));
    last = report.finished || step + 1 == options_.steps;
    Inspect(step + 1, last);
    const absl::Duration end = parts_.time->Elapsed();
    record_.set_total_ns(absl::ToInt64Nanoseconds(end - start));
    start = end;
    RecordBuckets(report);
    sink_(record_);
    recorded = parts_.time->Elapsed();
  }
  return absl::OkStatus();
}

// Data in, gradients out bucket by bucket, parameters of the next step back.
absl::StatusOr<StepReport> Trainer::Step(int64_t step, absl::Duration last) {
  const auto lap = [&] {
    const absl::Duration now = parts_.time->Elapsed();
    return absl::ToInt64Nanoseconds(now - std::exchange(last, now));
  };

  Enter(TrainingPhase::kData);
  Prepare(step);
  record_.set_data_ns(lap());

  Enter(TrainingPhase::kForward);
  parts_.slowdown->Start();
  ASSIGN_OR_RETURN(const double loss, parts_.model->Forward(batch_));
  record_.set_loss(loss);
  record_.set_forward_ns(lap());

  Enter(TrainingPhase::kBackward);
  RETURN_IF_ERROR(BackwardAndLaunch(step));
  record_.set_backward_ns(lap());

  Enter(TrainingPhase::kWaiting);
  ASSIGN_OR_RETURN(const StepReport report, parts_.exchange->Finish(step));
  const int64_t optimizer_ns = absl::ToInt64Nanoseconds(report.optimizer);
  record_.set_optimizer_ns(optimizer_ns);
  record_.set_exposed_ns(lap() - optimizer_ns);

  const ExchangeTraffic traffic = parts_.exchange->traffic();
  record_.set_payload_out(traffic.payload_out);
  record_.set_payload_in(traffic.payload_in);
  record_.set_peer_late_ns(absl::ToInt64Nanoseconds(report.peer_late));
  if (report.waited_for) record_.set_waited_for(*report.waited_for);
  record_.set_version_skew(report.version_skew);
  return report;
}

void Trainer::Enter(TrainingPhase phase) {
  phase_.store(phase, std::memory_order_relaxed);
  advances_.fetch_add(1, std::memory_order_relaxed);
}

TrainingProgress Trainer::progress() const {
  return {.step = step_.load(std::memory_order_relaxed),
          .phase = phase_.load(std::memory_order_relaxed),
          .advances = advances_.load(std::memory_order_relaxed)};
}

void Trainer::Prepare(int64_t step) {
  const auto indices = parts_.sampler->WorkerBatch(step, options_.workers, options_.rank);
  parts_.data->train.FillBatch(indices, features_.span().data, labels_.data());
  batch_ = {.rows = static_cast<int64_t>(indices.size()),
            .features = features_.span(),
            .labels = labels_};
}

// Backward reports tensors from the last to the first, so buckets fill up in index
// order; each is launched as soon as it is full, while backward goes on.
absl::Status Trainer::BackwardAndLaunch(int64_t step) {
  const std::vector<Bucket>& buckets = parts_.buckets->buckets;
  unready_.clear();
  for (const Bucket& bucket : buckets) unready_.push_back(bucket.tensor_count);
  size_t next = 0;
  absl::Status launched;
  RETURN_IF_ERROR(parts_.model->Backward([&](int tensor) {
    advances_.fetch_add(1, std::memory_order_relaxed);
    parts_.slowdown->Stretch();
    const int bucket = parts_.buckets->bucket_of_tensor[tensor];
    if (--unready_[bucket] == 0) ready_[bucket] = parts_.time->Elapsed();
    while (launched.ok() && next < buckets.size() && unready_[next] == 0) {
      launched = CheckFinite(step, buckets[next]);
      if (!launched.ok()) break;
      launched_[next] = parts_.time->Elapsed();
      launched = parts_.exchange->Launch(step, buckets[next++], parts_.device->Record());
    }
  }));
  RETURN_IF_ERROR(launched);
  CHECK_EQ(next, buckets.size()) << "backward left tensors without a gradient";
  return absl::OkStatus();
}

absl::Status Trainer::CheckFinite(int64_t step, const Bucket& bucket) {
  const std::span<float> gradients = parts_.gradients.Slice(bucket.range).host();
  const std::optional<int64_t> found = FirstNonFinite(gradients);
  if (!found) return absl::OkStatus();
  if (options_.non_finite == Training::SKIP) {
    std::fill(gradients.begin(), gradients.end(), 0.0f);
    record_.set_skipped_buckets(record_.skipped_buckets() + 1);
    return absl::OkStatus();
  }
  const int64_t element = bucket.range.begin + *found;
  const std::vector<Tensor>& tensors = parts_.model->layout().tensors();
  const auto tensor = std::find_if(
      tensors.begin(), tensors.end(),
      [element](const Tensor& candidate) { return element < candidate.range.end(); });
  CHECK(tensor != tensors.end());
  return NotANumberError(absl::StrCat("rank ", options_.rank, "'s gradient of tensor ",
                                      tensor->name, " is ", gradients[*found],
                                      " at element ", element - tensor->range.begin,
                                      ", in step ", step));
}

void Trainer::RecordBuckets(const StepReport& report) {
  CHECK_EQ(report.bucket_done.size(), ready_.size());
  for (size_t bucket = 0; bucket < ready_.size(); ++bucket) {
    BucketTimes& times = *record_.add_buckets();
    times.set_ready_ns(absl::ToInt64Nanoseconds(ready_[bucket]));
    times.set_launched_ns(absl::ToInt64Nanoseconds(launched_[bucket]));
    times.set_done_ns(absl::ToInt64Nanoseconds(report.bucket_done[bucket]));
  }
}

void Trainer::Inspect(int64_t completed, bool last) {
  Enter(TrainingPhase::kChecking);
  const auto due = [completed, last](int64_t interval) {
    return last || (interval > 0 && completed % interval == 0);
  };
  if (due(options_.digest_interval)) {
    record_.set_parameter_digest(Digest(parts_.parameters.host()));
  }
  if (options_.take_snapshots && due(options_.snapshot_interval)) {
    const auto parameters = parts_.parameters.host();
    snapshots_.push_back(
        {.step = completed, .parameters = {parameters.begin(), parameters.end()}});
  }
}

}  // namespace psring
