// One number of 16 bits, from and to a float, on processors and GPUs.
#ifndef PSRING_COMMON_SIXTEEN_BITS_ROUNDING_H_
#define PSRING_COMMON_SIXTEEN_BITS_ROUNDING_H_

#include <cstdint>

#include "common/float_bits.h"
#include "common/host_device.h"

// All is without branches, and over integers but for what a float addition rounds:
// compilers make vectors of it on any unit. Where a number may be of several kinds, the
// results for all kinds are computed, and one is picked.
//
// Round goes to nearest, ties to even, keeps subnormals, and leaves what is not a number
// that. Widen is exact.

namespace psring {

// Compilers make a branch of a conditional whose sides cost something, and then no
// vector.
PSRING_HOST_DEVICE uint32_t Pick(bool first, uint32_t a, uint32_t b) {
  const uint32_t mask = first ? 0xffffffff : 0;
  return (a & mask) | (b & ~mask);
}

struct Bf16 {
  static constexpr float kLargest = 0x1.fep127f;

  static PSRING_HOST_DEVICE uint16_t Round(float value) {
    const uint32_t bits = BitCast<uint32_t>(value);
    // Half of the last bit that stays, and nothing where that would make a tie odd.
    const uint32_t rounded = bits + 0x7fff + ((bits >> 16) & 1);
    const bool is_nan = MagnitudeBits(value) > int32_t{float_bits::kInfinity};
    return static_cast<uint16_t>(Pick(is_nan, bits | float_bits::kQuiet, rounded) >> 16);
  }
  static PSRING_HOST_DEVICE float Widen(uint16_t half) {
    return BitCast<float>(uint32_t{half} << 16);
  }
};

struct Fp16 {
  static constexpr float kLargest = 65504.0f;
  // Exponents of a float and of a half are apart by so much, in the float's bits.
  static constexpr uint32_t kRebias = (127 - 15) << 23;
  static constexpr uint32_t kLeastNormal = kRebias + (1 << 23);  // 2^-14
  // 65,520: half-way between the largest finite number and what would follow.
  static constexpr int32_t kLeastInfinite = 0x477ff000;
  static constexpr uint16_t kHalfInfinity = 0x7c00;

  static PSRING_HOST_DEVICE uint16_t Round(float value) {
    const uint32_t bits = BitCast<uint32_t>(value);
    const uint32_t magnitude = bits & float_bits::kMagnitude;
    const uint32_t normal = (magnitude + 0xfff + ((magnitude >> 13) & 1) - kRebias) >> 13;
    // A float in [0.5, 1) has the resolution of a subnormal half, 2^-24: the addition
    // rounds, and leaves the number of these in the fraction.
    const uint32_t subnormal =
        BitCast<uint32_t>(BitCast<float>(magnitude) + 0.5f) - BitCast<uint32_t>(0.5f);
    const auto compared = static_cast<int32_t>(magnitude);
    uint32_t half = Pick(compared < int32_t{kLeastNormal}, subnormal, normal);
    half = Pick(compared >= kLeastInfinite, kHalfInfinity, half);
    const uint32_t nan = kHalfInfinity | 0x200 | ((magnitude >> 13) & 0x3ff);
    half = Pick(compared > int32_t{float_bits::kInfinity}, nan, half);
    return static_cast<uint16_t>(half | ((bits >> 16) & 0x8000));
  }
  static PSRING_HOST_DEVICE float Widen(uint16_t half) {
    const uint32_t magnitude = half & 0x7fff;
    const uint32_t normal = (magnitude << 13) + kRebias;
    // Of a subnormal, the other way round: 0.5 with so many last bits, less 0.5.
    const uint32_t subnormal =
        BitCast<uint32_t>(BitCast<float>(BitCast<uint32_t>(0.5f) + magnitude) - 0.5f);
    const auto compared = static_cast<int32_t>(magnitude);
    uint32_t bits = Pick(compared < 0x400, subnormal, normal);
    bits = Pick(compared >= int32_t{kHalfInfinity}, normal + kRebias, bits);
    return BitCast<float>(bits | ((half & 0x8000u) << 16));
  }
};

}  // namespace psring

#endif  // PSRING_COMMON_SIXTEEN_BITS_ROUNDING_H_
