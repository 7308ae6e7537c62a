#include "worker/trainer.h"

#include <algorithm>
#include <cmath>
#include <limits>
#include <span>
#include <string>
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
    case TrainingPhase::kHolding:
      return "holding for a checkpoint";
  }
  return "";
}

Trainer::Trainer(const Options& options, const Parts& parts, StepSink sink)
    : options_(options),
      parts_(parts),
      sink_(std::move(sink)),
      accumulator_(options.micro_batches),
      unused_(&parts.model->layout(), options.micro_batches),
      ready_(parts.buckets->buckets.size()),
      launched_(parts.buckets->buckets.size()) {}

absl::Status Trainer::Run() {
  CHECK_EQ(options_.rows % options_.micro_batches, 0);
  batch_.rows = options_.rows / options_.micro_batches;
  if (parts_.data != nullptr) {
    ASSIGN_OR_RETURN(features_,
                     parts_.device->Allocate(batch_.rows * parts_.data->shape.features));
    labels_.resize(batch_.rows);
  }
  RETURN_IF_ERROR(accumulator_.Allocate(parts_.device, parts_.gradients.count,
                                        parts_.accumulated_memory));
  // A step lasts until the next one starts, so that nothing falls between two: it begins
  // with handing over the record of the one before.
  absl::Duration start = parts_.time->Elapsed();
  absl::Duration recorded = start;
  absl::Duration begun = start;  // When the first part of the step began.
  bool last = options_.steps == options_.first_step;
  for (int64_t step = options_.first_step; !last; ++step) {
    step_.store(step, std::memory_order_relaxed);
    record_.Clear();
    record_.set_rank(options_.rank);
    record_.set_step(step);
    record_.set_start_ns(absl::ToInt64Nanoseconds(start));
    record_.set_recording_ns(absl::ToInt64Nanoseconds(recorded - start));
    ASSIGN_OR_RETURN(const StepReport report, Step(step, begun));
    last = report.finished || step + 1 == options_.steps;
    Inspect(step + 1, last);
    const absl::Duration end = parts_.time->Elapsed();
    record_.set_total_ns(absl::ToInt64Nanoseconds(end - start));
    start = end;
    RecordBuckets(report);
    sink_(record_);
    begun = recorded = parts_.time->Elapsed();
    if (parts_.gate == nullptr) continue;
    if (last) {
      parts_.gate->Finish();
      continue;
    }
    Enter(TrainingPhase::kHolding);
    RETURN_IF_ERROR(parts_.gate->Pass(step + 1));
    begun = parts_.time->Elapsed();
  }
  return absl::OkStatus();
}

// Data in, gradients out bucket by bucket, parameters of the next step back. Each part's
// time is the sum over passes.
absl::StatusOr<StepReport> Trainer::Step(int64_t step, absl::Duration last) {
  const auto lap = [&] {
    const absl::Duration now = parts_.time->Elapsed();
    return absl::ToInt64Nanoseconds(now - std::exchange(last, now));
  };

  const bool has_samples = HasSamples(step);
  const int64_t passes = has_samples ? options_.micro_batches : 0;
  record_.set_samples(has_samples ? options_.rows : 0);
  double loss_sum = 0;
  for (int64_t pass = 0; pass < passes; ++pass) {
    Enter(TrainingPhase::kData);
    Prepare(step, pass);
    record_.set_data_ns(record_.data_ns() + lap());

    Enter(TrainingPhase::kForward);
    parts_.pace->Start(step, passes);
    ASSIGN_OR_RETURN(const double loss, parts_.model->Forward(batch_));
    RETURN_IF_ERROR(parts_.pace->EndForward());
    loss_sum += loss;
    record_.set_forward_ns(record_.forward_ns() + lap());

    Enter(TrainingPhase::kBackward);
    RETURN_IF_ERROR(Backward(step, pass));
    record_.set_late(record_.late() || parts_.pace->late());
    record_.set_backward_ns(record_.backward_ns() + lap());
  }
  if (has_samples) {
    record_.set_loss(loss_sum / static_cast<double>(passes));
  } else {
    record_.set_loss(std::numeric_limits<double>::quiet_NaN());
    record_.set_data_ns(lap());
    Enter(TrainingPhase::kBackward);
    RETURN_IF_ERROR(ContributeZeros(step));
    record_.set_backward_ns(lap());
  }

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
  record_.set_operations(report.operations);
  if (report.drift) {
    record_.set_drift_max(report.drift->max);
    record_.set_drift_mean(report.drift->mean());
  }
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

bool Trainer::HasSamples(int64_t step) const {
  return parts_.data == nullptr ||
         !parts_.sampler->WorkerBatch(step, options_.workers, options_.rank).empty();
}

void Trainer::Prepare(int64_t step, int64_t pass) {
  if (parts_.data == nullptr) return;
  const auto indices = parts_.sampler->WorkerBatch(step, options_.workers, options_.rank);
  CHECK_EQ(static_cast<int64_t>(indices.size()), options_.rows);
  const int64_t rows = batch_.rows;
  parts_.data->train.FillBatch(indices.subspan(pass * rows, rows), features_.span().data,
                               labels_.data());
  batch_ = {.rows = rows, .features = features_.span(), .labels = labels_};
}

// A pass gives every tensor a gradient: zero to those that it has not used, before the
// others, because nothing has to be computed for it. Of the last pass the gradient is
// then the step's. Backward reports tensors from the last to the first, so buckets fill
// up in index order; each is launched as soon as it is full, while backward goes on,
// unless they are to wait for its end.
absl::Status Trainer::Backward(int64_t step, int64_t pass) {
  const bool last = pass + 1 == options_.micro_batches;
  const std::span<const int> unused = parts_.model->unused();
  unused_.Take(pass, unused);
  if (last) {
    if (options_.unused_parameters == Training::ERROR) {
      RETURN_IF_ERROR(unused_.Check(options_.rank, step));
    }
    StartLaunching();
  }
  const auto take = [&](int tensor) {
    accumulator_.Take(pass, parts_.model->layout().tensors()[tensor].range,
                      parts_.gradients);
    return last ? MarkReady(step, tensor) : absl::OkStatus();
  };
  // But for the first tensor, with which the last bucket may be full: Finish is to come
  // right after that one.
  for (const int tensor : unused) {
    SetZero(tensor);
    if (tensor != 0) RETURN_IF_ERROR(take(tensor));
  }
  absl::Status status;  // The first error; nothing is done after it.
  RETURN_IF_ERROR(parts_.model->Backward([&](int tensor) {
    advances_.fetch_add(1, std::memory_order_relaxed);
    if (status.ok()) status = parts_.pace->BeforeReady(tensor);
    if (status.ok()) status = take(tensor);
  }));
  RETURN_IF_ERROR(status);
  if (!unused.empty() && unused.front() == 0) {
    RETURN_IF_ERROR(parts_.pace->BeforeReady(0));
    RETURN_IF_ERROR(take(0));
  }
  return last ? FinishLaunching(step) : absl::OkStatus();
}

absl::Status Trainer::ContributeZeros(int64_t step) {
  StartLaunching();
  for (int t = static_cast<int>(parts_.model->layout().tensors().size()) - 1; t >= 0;
       --t) {
    SetZero(t);
    RETURN_IF_ERROR(MarkReady(step, t));
  }
  return FinishLaunching(step);
}

void Trainer::SetZero(int tensor) {
  const std::span<float> gradient =
      parts_.gradients.Slice(parts_.model->layout().tensors()[tensor].range).host();
  std::fill(gradient.begin(), gradient.end(), 0.0f);
}

void Trainer::StartLaunching() {
  unready_.clear();
  for (const Bucket& bucket : parts_.buckets->buckets) {
    unready_.push_back(bucket.tensor_count);
  }
  next_ = 0;
}

absl::Status Trainer::MarkReady(int64_t step, int tensor) {
  const int bucket = parts_.buckets->bucket_of_tensor[tensor];
  if (--unready_[bucket] == 0) ready_[bucket] = parts_.time->Elapsed();
  return options_.overlap ? LaunchFull(step) : absl::OkStatus();
}

absl::Status Trainer::LaunchFull(int64_t step) {
  const std::vector<Bucket>& buckets = parts_.buckets->buckets;
  while (next_ < buckets.size() && unready_[next_] == 0) {
    RETURN_IF_ERROR(CheckFinite(step, buckets[next_]));
    launched_[next_] = parts_.time->Elapsed();
    RETURN_IF_ERROR(
        parts_.exchange->Launch(step, buckets[next_], parts_.device->Record()));
    ++next_;
  }
  return absl::OkStatus();
}

absl::Status Trainer::FinishLaunching(int64_t step) {
  RETURN_IF_ERROR(LaunchFull(step));
  CHECK_EQ(next_, parts_.buckets->buckets.size())
      << "backward left tensors without a gradient";
  return absl::OkStatus();
}

absl::Status Trainer::CheckFinite(int64_t step, const Bucket& bucket) {
  const std::span<float> gradients = parts_.gradients.Slice(bucket.range).host();
  const float largest = options_.wire.largest();
  const std::optional<int64_t> found = FirstBeyond(gradients, largest);
  if (!found) return absl::OkStatus();
  const bool finite = std::isfinite(gradients[*found]);
  if (!finite && options_.non_finite == Training::SKIP) {
    std::fill(gradients.begin(), gradients.end(), 0.0f);
    record_.set_skipped_buckets(record_.skipped_buckets() + 1);
    return absl::OkStatus();
  }
  const int64_t element = bucket.range.begin + *found;
  const Tensor& tensor = parts_.model->layout().TensorAt(element);
  std::string text = absl::StrCat("rank ", options_.rank, "'s gradient of tensor ",
                                  tensor.name, " is ", gradients[*found], " at element ",
                                  element - tensor.range.begin, ", in step ", step);
  if (finite) {
    absl::StrAppend(&text, ", and goes as ", options_.wire.name(),
                    ", whose largest finite number is ", largest);
  }
  return NotANumberError(text);
}

void Trainer::RecordBuckets(const StepReport& report) {
  CHECK_EQ(report.bucket_done.size(), ready_.size());
  const auto& working = report.bucket_working;
  for (size_t bucket = 0; bucket < ready_.size(); ++bucket) {
    BucketTimes& times = *record_.add_buckets();
    times.set_ready_ns(absl::ToInt64Nanoseconds(ready_[bucket]));
    times.set_launched_ns(absl::ToInt64Nanoseconds(launched_[bucket]));
    times.set_done_ns(absl::ToInt64Nanoseconds(report.bucket_done[bucket]));
    if (!working.empty()) {
      times.set_working_ns(absl::ToInt64Nanoseconds(working[bucket]));
    }
  }
}

void Trainer::Inspect(int64_t completed, bool last) {
  Enter(TrainingPhase::kChecking);
  const auto due = [completed, last](int64_t interval) {
    return last || (interval > 0 && completed % interval == 0);
  };
  if (due(options_.digest_interval)) RecordDigests();
  if (options_.take_snapshots && due(options_.snapshot_interval)) {
    const auto parameters = parts_.parameters.host();
    snapshots_.push_back(
        {.step = completed, .parameters = {parameters.begin(), parameters.end()}});
  }
}

void Trainer::RecordDigests() {
  uint64_t sum = 0;
  for (const Tensor& tensor : parts_.model->layout().tensors()) {
    const uint64_t digest =
        Digest(parts_.parameters.Slice(tensor.range).host(), tensor.range.begin);
    record_.add_tensor_digests(digest);
    sum += digest;
  }
  record_.set_parameter_digest(sum);
}

}  // namespace psring
