// The gradients of the passes of one step, made one.
#ifndef PSRING_WORKER_GRADIENT_ACCUMULATOR_H_
#define PSRING_WORKER_GRADIENT_ACCUMULATOR_H_

#include <cstdint>
#include <memory>

#include "absl/status/status.h"
#include "common/device.h"
#include "common/device_span.h"
#include "common/memory_gauge.h"
#include "common/partition.h"

namespace psring {

// Each pass overwrites the gradients; this keeps their sum meanwhile, in a buffer of as
// many floats, which a step of one pass does not need and does not have. Element by
// element, with g[p] the gradient of pass p of k:
//
//   (((g[0] + g[1]) + g[2]) + ...) * MeanFactor(k)
//
// One thread. Host memory only.
class GradientAccumulator {
 public:
  // Requires passes >= 1.
  explicit GradientAccumulator(int64_t passes) : passes_(passes) {}

  // Once, before anything else, for `count` gradients; `gauge`, if any, counts the
  // buffer. ResourceExhausted: there is no memory for them.
  absl::Status Allocate(Device* device, int64_t count,
                        const std::shared_ptr<MemoryGauge>& gauge = nullptr);

  // The gradients in `range` are pass `pass`'s, from 0. Of the last pass they become the
  // mean, right then: who wants to send them need not wait for the others.
  void Take(int64_t pass, Range range, DeviceSpan gradients);

 private:
  const int64_t passes_;
  DeviceBuffer sum_;  // Empty with one pass.
};

}  // namespace psring

#endif  // PSRING_WORKER_GRADIENT_ACCUMULATOR_H_
