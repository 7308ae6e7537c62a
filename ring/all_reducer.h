// The seam between an exchange and how the ranks' gradients are summed.
#ifndef PSRING_RING_ALL_REDUCER_H_
#define PSRING_RING_ALL_REDUCER_H_

#include <cstdint>

#include "absl/status/status.h"
#include "common/device_span.h"
#include "common/layout.h"

namespace psring {

class AllReducer {
 public:
  virtual ~AllReducer() = default;

  // Replaces the values of `bucket` by their sums over all ranks: on every rank the same
  // bits. Every rank calls it with the same steps and buckets in the same order; blocks
  // until this rank has the sums. Requires values.count == bucket.range.count. One
  // thread at a time.
  //   kUnavailable: a neighbour is lost or stalled; the message names it.
  //   kFailedPrecondition: a neighbour is at another operation; the message shows both.
  // After an error the values are undefined, and every later call returns it.
  virtual absl::Status Sum(int64_t step, const Bucket& bucket, DeviceSpan values) = 0;
};

}  // namespace psring

#endif  // PSRING_RING_ALL_REDUCER_H_
