#include "common/exchange_order.h"

#include <utility>

#include "absl/strings/str_cat.h"
#include "common/status_macros.h"

namespace psring {

ExchangeOrder::ExchangeOrder(std::vector<Range> buckets) : buckets_(std::move(buckets)) {}

absl::Status ExchangeOrder::Bind(DeviceSpan parameters, DeviceSpan gradients) {
  if (bound_) return absl::FailedPreconditionError("Bind a second time");
  int64_t count = 0;
  for (const Range& bucket : buckets_) count += bucket.count;
  if (parameters.count != count || gradients.count != count) {
    return absl::InvalidArgumentError(
        absl::StrCat("the plan has ", count, " elements, the parameters ",
                     parameters.count, ", the gradients ", gradients.count));
  }
  bound_ = true;
  return absl::OkStatus();
}

absl::Status ExchangeOrder::Launch(int64_t step, const Bucket& bucket) {
  RETURN_IF_ERROR(CheckStep(step));
  if (launched_ == buckets_.size() || bucket.index != static_cast<int>(launched_)) {
    return absl::FailedPreconditionError(
        absl::StrCat("bucket ", bucket.index, " of step ", step, " is launched after ",
                     launched_, " of ", buckets_.size(), " buckets"));
  }
  if (bucket.range != buckets_[launched_]) {
    return absl::InvalidArgumentError(
        absl::StrCat("bucket ", bucket.index, " is not the plan's"));
  }
  step_ = step;
  ++launched_;
  return absl::OkStatus();
}

absl::Status ExchangeOrder::CheckFinish(int64_t step) const {
  RETURN_IF_ERROR(CheckStep(step));
  if (launched_ != buckets_.size()) {
    return absl::FailedPreconditionError(
        absl::StrCat("step ", step, " is finished after ", launched_, " of ",
                     buckets_.size(), " buckets"));
  }
  return absl::OkStatus();
}

void ExchangeOrder::EndStep(int64_t next_step) {
  step_ = next_step;
  launched_ = 0;
}

absl::Status ExchangeOrder::CheckStep(int64_t step) const {
  if (!bound_) {
    return absl::FailedPreconditionError(absl::StrCat("step ", step, " before Bind"));
  }
  if (step_.has_value() && step != *step_) {
    return absl::FailedPreconditionError(
        absl::StrCat("step ", step, " where step ", *step_, " is due"));
  }
  return absl::OkStatus();
}

std::vector<Range> RangesOf(const BucketPlan& plan) {
  std::vector<Range> ranges;
  for (const Bucket& bucket : plan.buckets) ranges.push_back(bucket.range);
  return ranges;
}

}  // namespace psring
