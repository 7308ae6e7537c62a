// The order of calls that common/gradient_exchange.h asks for, checked in one place for
// every exchange.
#ifndef PSRING_COMMON_EXCHANGE_ORDER_H_
#define PSRING_COMMON_EXCHANGE_ORDER_H_

#include <cstdint>
#include <optional>
#include <vector>

#include "absl/status/status.h"
#include "common/device_span.h"
#include "common/layout.h"
#include "common/partition.h"

namespace psring {

// Bind once; then, for one step after the other, Launch of every bucket in index order
// and Finish. The training thread's.
//
// A call that does not fit is refused and changes nothing: kFailedPrecondition where it
// comes out of order, kInvalidArgument where its spans or its bucket are not the plan's.
class ExchangeOrder {
 public:
  // The elements of each bucket, by index.
  explicit ExchangeOrder(std::vector<Range> buckets);

  absl::Status Bind(DeviceSpan parameters, DeviceSpan gradients);
  // The first step may be any.
  absl::Status Launch(int64_t step, const Bucket& bucket);
  // OK where Finish is due: every bucket of the step has been launched.
  absl::Status CheckFinish(int64_t step) const;
  // Finish has succeeded, and the parameters are those for `next_step`.
  void EndStep(int64_t next_step);

 private:
  absl::Status CheckStep(int64_t step) const;

  const std::vector<Range> buckets_;
  bool bound_ = false;
  std::optional<int64_t> step_;  // Whose buckets are launched, once known.
  size_t launched_ = 0;          // Buckets of this step.
};

// Of a plan's buckets, by index.
std::vector<Range> RangesOf(const BucketPlan& plan);

}  // namespace psring

#endif  // PSRING_COMMON_EXCHANGE_ORDER_H_
