// The element-wise sums that decide the bits of a replica, shared by servers and ranks.
// Spans of one call have equal length and do not overlap.
#ifndef PSRING_COMMON_ARITHMETIC_H_
#define PSRING_COMMON_ARITHMETIC_H_

#include <cstddef>
#include <cstdint>
#include <optional>
#include <span>

namespace psring {

// sum[i] = sum[i] + addend[i], in this order of operands.
void AddInPlace(std::span<float> sum, std::span<const float> addend);
// The same with the addend's floats as bytes, at any alignment.
void AddBytesInPlace(std::span<float> sum, std::span<const std::byte> addend);

// values[i] *= factor.
void ScaleInPlace(std::span<float> values, float factor);

// gradient[i] += lambda * gradient[i]^2 * (now[i] - read[i]): what the gradient would
// about be at `now`, where it was computed at `read`.
//
// Source: Zheng et al., 2017 (delay-compensated asynchronous SGD, its diagonal form).
void CompensateDelay(std::span<float> gradient, float lambda, std::span<const float> now,
                     std::span<const float> read);

// The index of the first value that is infinite or not a number, if there is one.
std::optional<int64_t> FirstNonFinite(std::span<const float> values);
// The same of the first whose magnitude is above `largest`, or that is not a number.
std::optional<int64_t> FirstBeyond(std::span<const float> values, float largest);

// 1/N as every mode multiplies a sum of N contributions with it.
inline float MeanFactor(int64_t contributions) {
  return 1.0f / static_cast<float>(contributions);
}

}  // namespace psring

#endif  // PSRING_COMMON_ARITHMETIC_H_
