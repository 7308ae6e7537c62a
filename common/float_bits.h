// A float's bits, on processors and GPUs.
#ifndef PSRING_COMMON_FLOAT_BITS_H_
#define PSRING_COMMON_FLOAT_BITS_H_

#include <cstdint>

#include "common/host_device.h"

namespace psring {

namespace float_bits {
inline constexpr uint32_t kMagnitude = 0x7fffffff;
inline constexpr uint32_t kInfinity = 0x7f800000;
inline constexpr uint32_t kQuiet = 0x00400000;  // The bit that tells NaN from infinity.
}  // namespace float_bits

// std::bit_cast, which kernels cannot call.
template <typename To, typename From>
PSRING_HOST_DEVICE To BitCast(From from) {
  return __builtin_bit_cast(To, from);
}

// Without the sign, the bits of numbers are in the order of the numbers, and what is not
// a number is above them all. They are compared as integers, so that a loop has no branch
// and no floating-point mode matters.
PSRING_HOST_DEVICE int32_t MagnitudeBits(float value) {
  return static_cast<int32_t>(BitCast<uint32_t>(value) & float_bits::kMagnitude);
}

}  // namespace psring

#endif  // PSRING_COMMON_FLOAT_BITS_H_
