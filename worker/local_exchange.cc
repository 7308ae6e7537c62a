#include "worker/local_exchange.h"

#include <utility>

#include "common/arithmetic.h"
#include "common/status_macros.h"
#include "glog/logging.h"

namespace psring {

LocalExchange::LocalExchange(BucketPlan plan, const Optimizer& optimizer,
                             std::shared_ptr<StepConstantsSource> constants,
                             const TimeSource* time,
                             const std::shared_ptr<MemoryGauge>& state_memory)
    : plan_(std::move(plan)),
      constants_(std::move(constants)),
      time_(time),
      order_(RangesOf(plan_)),
      done_(plan_.buckets.size()) {
  for (const Bucket& bucket : plan_.buckets) {
    optimizers_.emplace_back(optimizer, bucket.range.count, state_memory);
  }
}

absl::Status LocalExchange::Bind(DeviceSpan parameters, DeviceSpan gradients) {
  RETURN_IF_ERROR(aborted());
  RETURN_IF_ERROR(order_.Bind(parameters, gradients));
  parameters_ = parameters;
  gradients_ = gradients;
  return absl::OkStatus();
}

absl::Status LocalExchange::Launch(int64_t step, const Bucket& bucket,
                                   const ReadyEvent& ready) {
  RETURN_IF_ERROR(aborted());
  RETURN_IF_ERROR(order_.Launch(step, bucket));
  ready.Wait();
  done_[bucket.index] = time_->Elapsed();
  return absl::OkStatus();
}

absl::StatusOr<StepReport> LocalExchange::Finish(int64_t step) {
  RETURN_IF_ERROR(aborted());
  RETURN_IF_ERROR(order_.CheckFinish(step));
  const absl::StatusOr<StepConstants> constants = constants_->At(step);
  if (!constants.ok()) {
    Abort(constants.status());
    return aborted();
  }
  const absl::Duration start = time_->Elapsed();
  for (const Bucket& bucket : plan_.buckets) {
    const std::span<float> gradient = gradients_.Slice(bucket.range).host();
    ScaleInPlace(gradient, MeanFactor(1));
    optimizers_[bucket.index].Apply(*constants, 0, parameters_.Slice(bucket.range).host(),
                                    gradient);
  }
  order_.EndStep(step + 1);
  return StepReport{.optimizer = time_->Elapsed() - start, .bucket_done = done_};
}

std::vector<StateSlice> LocalExchange::state() {
  std::vector<StateSlice> slices;
  for (const Bucket& bucket : plan_.buckets) {
    slices.push_back({.range = bucket.range, .state = optimizers_[bucket.index].state()});
  }
  return slices;
}

void LocalExchange::Abort(absl::Status reason) {
  CHECK(!reason.ok());
  MutexLock lock(&mutex_);
  if (aborted_.ok()) aborted_ = std::move(reason);
}

absl::Status LocalExchange::aborted() {
  MutexLock lock(&mutex_);
  return aborted_;
}

}  // namespace psring
