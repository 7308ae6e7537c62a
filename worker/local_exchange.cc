#include "worker/local_exchange.h"

#include <utility>

#include "absl/strings/str_cat.h"
#include "common/arithmetic.h"
#include "common/status_macros.h"
#include "glog/logging.h"

namespace psring {

LocalExchange::LocalExchange(BucketPlan plan, const Optimizer& optimizer,
                             std::shared_ptr<StepConstantsSource> constants,
                             const TimeSource* time)
    : plan_(std::move(plan)),
      constants_(std::move(constants)),
      time_(time),
      done_(plan_.buckets.size()) {
  for (const Bucket& bucket : plan_.buckets) {
    optimizers_.emplace_back(optimizer, bucket.range.count);
  }
}

absl::Status LocalExchange::Bind(DeviceSpan parameters, DeviceSpan gradients) {
  RETURN_IF_ERROR(aborted());
  int64_t count = 0;
  for (const Bucket& bucket : plan_.buckets) count += bucket.range.count;
  if (parameters.count != count || gradients.count != count) {
    return absl::InvalidArgumentError(
        absl::StrCat("the plan has ", count, " elements, the parameters ",
                     parameters.count, ", the gradients ", gradients.count));
  }
  parameters_ = parameters;
  gradients_ = gradients;
  return absl::OkStatus();
}

absl::Status LocalExchange::Launch(int64_t step, const Bucket& bucket,
                                   const ReadyEvent& ready) {
  RETURN_IF_ERROR(aborted());
  if (parameters_.data == nullptr) {
    return absl::FailedPreconditionError("Launch before Bind");
  }
  if (bucket.index != next_bucket_ ||
      bucket.index >= static_cast<int>(plan_.buckets.size())) {
    return absl::InvalidArgumentError(
        absl::StrCat("bucket ", bucket.index, " is launched where bucket ", next_bucket_,
                     " of ", plan_.buckets.size(), " is due, step ", step));
  }
  ++next_bucket_;
  ready.Wait();
  done_[bucket.index] = time_->Elapsed();
  return absl::OkStatus();
}

absl::StatusOr<StepReport> LocalExchange::Finish(int64_t step) {
  RETURN_IF_ERROR(aborted());
  if (next_bucket_ != static_cast<int>(plan_.buckets.size())) {
    return absl::InvalidArgumentError(absl::StrCat("step ", step, " is finished after ",
                                                   next_bucket_, " of ",
                                                   plan_.buckets.size(), " buckets"));
  }
  next_bucket_ = 0;
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
  return StepReport{.optimizer = time_->Elapsed() - start, .bucket_done = done_};
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
