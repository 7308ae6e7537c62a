#include "ring/gradient_sum.h"

#include <chrono>
#include <span>
#include <utility>

#include "absl/strings/str_cat.h"
#include "common/arithmetic.h"
#include "common/errors.h"
#include "common/sixteen_bits.h"
#include "common/status_macros.h"
#include "glog/logging.h"

namespace psring {

GradientSum::GradientSum(const WireType& wire, int64_t largest_count,
                         const std::shared_ptr<MemoryGauge>& gauge)
    : wire_(wire),
      rounded_(wire.is_fp32() ? 0 : largest_count),
      claim_(gauge, static_cast<int64_t>(rounded_.size() * sizeof(uint16_t))) {
  CHECK(wire_.is_fp32() || wire_.is_sixteen_bits()) << wire_.name();
}

absl::Status GradientSum::AllReduce(Collectives& collectives, OperationTag tag,
                                    float factor, DeviceSpan gradients) {
  if (wire_.is_fp32()) return collectives.AllReduce(tag, gradients);
  const SixteenBits type = wire_.sixteen_bits();
  const std::span<float> values = gradients.host();
  const auto rounded = std::span(rounded_).first(values.size());
  // The trainer has let nothing pass that is beyond the largest number.
  const auto begin = std::chrono::steady_clock::now();
  drift_.Add(RoundTo(type, values, factor, rounded).drift);
  const auto sent = std::chrono::steady_clock::now();
  RETURN_IF_ERROR(collectives.AllReduce(tag, Elements(type, rounded)));
  const auto summed = std::chrono::steady_clock::now();
  Widen(type, rounded, values);
  // Terms that are all but the largest may be rounded up in every hop.
  const std::optional<int64_t> beyond = FirstNonFinite(values);
  const auto end = std::chrono::steady_clock::now();
  converting_ += absl::FromChrono((sent - begin) + (end - summed));
  if (!beyond) return absl::OkStatus();
  return NotANumberError(absl::StrCat("the mean gradient of element ", *beyond,
                                      " of bucket ", tag.bucket, " is not finite as ",
                                      wire_.name(), ", in step ", tag.step));
}

std::optional<float> GradientSum::RestOf(float factor) const {
  return wire_.is_fp32() ? std::optional<float>(factor) : std::nullopt;
}

std::optional<Drift> GradientSum::TakeDrift() {
  if (wire_.is_fp32()) return std::nullopt;
  return std::exchange(drift_, {});
}

}  // namespace psring
