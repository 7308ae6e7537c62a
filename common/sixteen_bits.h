// Numbers of 16 bits: to them, from them, and sums of them. Like common/arithmetic.h it
// decides the bits of a replica: every result is the same on any processor.
#ifndef PSRING_COMMON_SIXTEEN_BITS_H_
#define PSRING_COMMON_SIXTEEN_BITS_H_

#include <cstdint>
#include <optional>
#include <span>

#include "common/drift.h"

namespace psring {

enum class SixteenBits {
  kBf16,  // 8 bits of exponent, 7 of fraction: the upper half of a float.
  kFp16,  // 5 and 10: IEEE 754's binary16.
};

// The largest finite number.
float LargestOf(SixteenBits type);

struct Rounding {
  Drift drift;
  // Of the first element that is infinite or not a number once it is rounded.
  std::optional<int64_t> not_finite = std::nullopt;
};

// rounded[i] = values[i] * factor, to nearest, ties to even; subnormals are kept, and
// what is not a number stays that. The drift is that of values[i] * factor. Spans have
// the same length.
Rounding RoundTo(SixteenBits type, std::span<const float> values, float factor,
                 std::span<uint16_t> rounded);

// Exact. Spans have the same length.
void Widen(SixteenBits type, std::span<const uint16_t> values, std::span<float> widened);

// sum[i] = sum[i] + addend[i] as floats, rounded as above. Spans have the same length and
// do not overlap.
void AddRounded(SixteenBits type, std::span<uint16_t> sum,
                std::span<const uint16_t> addend);

}  // namespace psring

#endif  // PSRING_COMMON_SIXTEEN_BITS_H_
