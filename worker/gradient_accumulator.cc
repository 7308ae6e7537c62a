#include "worker/gradient_accumulator.h"

#include <algorithm>
#include <span>
#include <utility>

#include "common/arithmetic.h"
#include "common/status_macros.h"
#include "common/tracked_buffer.h"

namespace psring {

absl::Status GradientAccumulator::Allocate(Device* device, int64_t count,
                                           const std::shared_ptr<MemoryGauge>& gauge) {
  if (passes_ == 1) return absl::OkStatus();
  ASSIGN_OR_RETURN(DeviceBuffer sum, device->Allocate(count));
  sum_ = Tracked(std::move(sum), gauge);
  return absl::OkStatus();
}

void GradientAccumulator::Take(int64_t pass, Range range, DeviceSpan gradients) {
  if (passes_ == 1) return;
  const std::span<float> sum = sum_.span().Slice(range).host();
  const std::span<float> gradient = gradients.Slice(range).host();
  if (pass == 0) {
    std::copy(gradient.begin(), gradient.end(), sum.begin());
  } else if (pass + 1 < passes_) {
    AddInPlace(sum, gradient);
  } else {
    AddInPlace(gradient, sum);  // Where the mean has to be; a + b is b + a.
    ScaleInPlace(gradient, MeanFactor(passes_));
  }
}

}  // namespace psring
