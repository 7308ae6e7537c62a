// The sum of a bucket's gradients over all ranks, as what they are on the wire.
#ifndef PSRING_RING_GRADIENT_SUM_H_
#define PSRING_RING_GRADIENT_SUM_H_

#include <cstdint>
#include <memory>
#include <optional>
#include <vector>

#include "absl/status/status.h"
#include "absl/time/time.h"
#include "common/device_span.h"
#include "common/drift.h"
#include "common/memory_gauge.h"
#include "common/wire_type.h"
#include "ring/collectives.h"

namespace psring {

// With fp32 the gradients are summed where they lie. With 16 bits they are multiplied by
// the mean's factor first, so that no sum is beyond what its terms are, and rounded into
// a buffer; partial sums are rounded again at every hop, and what comes out is the same
// on every rank. The numbers of 16 bits that were summed go back as floats.
//
// One thread at a time.
class GradientSum {
 public:
  // fp32 or 16 bits; `largest_count` is of the largest bucket.
  // `gauge`, if any, counts the buffer.
  GradientSum(const WireType& wire, int64_t largest_count,
              const std::shared_ptr<MemoryGauge>& gauge = nullptr);

  // `factor` is 1 / N for the mean of N. Errors as those of Collectives::AllReduce, and
  // NotANumberError: a sum is beyond the largest number of 16 bits.
  absl::Status AllReduce(Collectives& collectives, OperationTag tag, float factor,
                         DeviceSpan gradients);

  // What is left to be multiplied with after an AllReduce with `factor`; none where it
  // has been applied.
  std::optional<float> RestOf(float factor) const;

  // Rounding and widening, so far.
  absl::Duration converting() const { return converting_; }

  // Of all sums since it was taken last: how far this rank's gradients were changed by
  // being rounded, the sums aside. None with fp32.
  std::optional<Drift> TakeDrift();

 private:
  const WireType wire_;
  std::vector<uint16_t> rounded_;  // Empty with fp32.
  MemoryClaim claim_;              // Of it.
  Drift drift_;
  absl::Duration converting_ = absl::ZeroDuration();
};

}  // namespace psring

#endif  // PSRING_RING_GRADIENT_SUM_H_
