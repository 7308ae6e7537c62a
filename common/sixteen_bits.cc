#include "common/sixteen_bits.h"

#include <algorithm>
#include <array>
#include <bit>
#include <cmath>

#include "common/vectorize.h"

// All loops are without branches, and over integers but for what a float addition rounds:
// compilers make vectors of them on any unit. Where a number may be of several kinds, the
// results for all kinds are computed, and one is picked.

#define PSRING_INLINE __attribute__((always_inline)) inline

namespace psring {
namespace {

constexpr uint32_t kMagnitude = 0x7fffffff;
constexpr uint32_t kInfinity = 0x7f800000;
constexpr uint32_t kQuiet = 0x00400000;  // The bit that tells NaN from infinity.

// Compilers make a branch of a conditional whose sides cost something, and then no
// vector.
PSRING_INLINE uint32_t Pick(bool first, uint32_t a, uint32_t b) {
  const uint32_t mask = first ? 0xffffffff : 0;
  return (a & mask) | (b & ~mask);
}

struct Bf16 {
  static constexpr float kLargest = 0x1.fep127f;

  static PSRING_INLINE uint16_t Round(float value) {
    const uint32_t bits = std::bit_cast<uint32_t>(value);
    // Half of the last bit that stays, and nothing where that would make a tie odd.
    const uint32_t rounded = bits + 0x7fff + ((bits >> 16) & 1);
    const bool is_nan = static_cast<int32_t>(bits & kMagnitude) > int32_t{kInfinity};
    return static_cast<uint16_t>(Pick(is_nan, bits | kQuiet, rounded) >> 16);
  }
  static PSRING_INLINE float Widen(uint16_t half) {
    return std::bit_cast<float>(uint32_t{half} << 16);
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

  static PSRING_INLINE uint16_t Round(float value) {
    const uint32_t bits = std::bit_cast<uint32_t>(value);
    const uint32_t magnitude = bits & kMagnitude;
    const uint32_t normal = (magnitude + 0xfff + ((magnitude >> 13) & 1) - kRebias) >> 13;
    // A float in [0.5, 1) has the resolution of a subnormal half, 2^-24: the addition
    // rounds, and leaves the number of these in the fraction.
    const uint32_t subnormal =
        std::bit_cast<uint32_t>(std::bit_cast<float>(magnitude) + 0.5f) -
        std::bit_cast<uint32_t>(0.5f);
    const auto compared = static_cast<int32_t>(magnitude);
    uint32_t half = Pick(compared < int32_t{kLeastNormal}, subnormal, normal);
    half = Pick(compared >= kLeastInfinite, kHalfInfinity, half);
    const uint32_t nan = kHalfInfinity | 0x200 | ((magnitude >> 13) & 0x3ff);
    half = Pick(compared > int32_t{kInfinity}, nan, half);
    return static_cast<uint16_t>(half | ((bits >> 16) & 0x8000));
  }
  static PSRING_INLINE float Widen(uint16_t half) {
    const uint32_t magnitude = half & 0x7fff;
    const uint32_t normal = (magnitude << 13) + kRebias;
    // Of a subnormal, the other way round: 0.5 with so many last bits, less 0.5.
    const uint32_t subnormal = std::bit_cast<uint32_t>(
        std::bit_cast<float>(std::bit_cast<uint32_t>(0.5f) + magnitude) - 0.5f);
    const auto compared = static_cast<int32_t>(magnitude);
    uint32_t bits = Pick(compared < 0x400, subnormal, normal);
    bits = Pick(compared >= int32_t{kHalfInfinity}, normal + kRebias, bits);
    return std::bit_cast<float>(bits | ((half & 0x8000u) << 16));
  }
};

// Sums over a gradient, one per lane: so there is an order of additions that no vector
// unit changes, and no loop has to wait for its own last result.
constexpr int64_t kLanes = 256;
struct Lanes {
  std::array<float, kLanes> sum = {};
  std::array<float, kLanes> max = {};
};

// What is found in a block of at most kLanes values.
struct Found {
  uint32_t nonzero = 0;
  uint32_t not_finite = 0;  // Not 0: there is one.
};

template <typename Type>
PSRING_INLINE Found RoundBlock(const float* values, float factor, uint16_t* to,
                               float* sum, float* max, int64_t count) {
  uint32_t nonzero = 0;
  uint32_t not_finite = 0;
  for (int64_t i = 0; i < count; ++i) {
    const float value = values[i] * factor;
    const uint16_t half = Type::Round(value);
    to[i] = half;
    const float widened = Type::Widen(half);
    const uint32_t bits = std::bit_cast<uint32_t>(widened);
    not_finite |= Pick((bits & kInfinity) == kInfinity, 1, 0);
    const uint32_t magnitude = std::bit_cast<uint32_t>(value) & kMagnitude;
    nonzero += Pick(magnitude != 0, 1, 0);
    // 0 / 1 for a value of 0, whose change is none.
    const float over = std::bit_cast<float>(
        Pick(magnitude != 0, magnitude, std::bit_cast<uint32_t>(1.0f)));
    const float drift = std::fabs(widened - value) / over;
    sum[i] += drift;
    max[i] = drift > max[i] ? drift : max[i];
  }
  return {.nonzero = nonzero, .not_finite = not_finite};
}

template <typename Type>
PSRING_INLINE void WidenAll(const uint16_t* values, float* to, int64_t count) {
  for (int64_t i = 0; i < count; ++i) to[i] = Type::Widen(values[i]);
}

template <typename Type>
PSRING_INLINE void AddAll(uint16_t* __restrict sum, const uint16_t* __restrict addend,
                          int64_t count) {
  for (int64_t i = 0; i < count; ++i) {
    sum[i] = Type::Round(Type::Widen(sum[i]) + Type::Widen(addend[i]));
  }
}

// The clones of common/vectorize.h, of one type each.

PSRING_VECTORIZED
Found RoundBf16(const float* __restrict values, float factor, uint16_t* __restrict to,
                float* __restrict sum, float* __restrict max, int64_t count) {
  return RoundBlock<Bf16>(values, factor, to, sum, max, count);
}
PSRING_VECTORIZED
Found RoundFp16(const float* __restrict values, float factor, uint16_t* __restrict to,
                float* __restrict sum, float* __restrict max, int64_t count) {
  return RoundBlock<Fp16>(values, factor, to, sum, max, count);
}
PSRING_VECTORIZED
void WidenBf16(const uint16_t* __restrict values, float* __restrict to, int64_t count) {
  WidenAll<Bf16>(values, to, count);
}
PSRING_VECTORIZED
void WidenFp16(const uint16_t* __restrict values, float* __restrict to, int64_t count) {
  WidenAll<Fp16>(values, to, count);
}
PSRING_VECTORIZED
void AddBf16(uint16_t* __restrict sum, const uint16_t* __restrict addend, int64_t count) {
  AddAll<Bf16>(sum, addend, count);
}
PSRING_VECTORIZED
void AddFp16(uint16_t* __restrict sum, const uint16_t* __restrict addend, int64_t count) {
  AddAll<Fp16>(sum, addend, count);
}

bool IsFinite(SixteenBits type, uint16_t half) {
  return std::isfinite(type == SixteenBits::kBf16 ? Bf16::Widen(half)
                                                  : Fp16::Widen(half));
}

}  // namespace

float LargestOf(SixteenBits type) {
  return type == SixteenBits::kBf16 ? Bf16::kLargest : Fp16::kLargest;
}

Rounding RoundTo(SixteenBits type, std::span<const float> values, float factor,
                 std::span<uint16_t> rounded) {
  const auto round = type == SixteenBits::kBf16 ? RoundBf16 : RoundFp16;
  const auto count = static_cast<int64_t>(values.size());
  Rounding result;
  Lanes lanes;
  uint32_t not_finite = 0;
  for (int64_t begin = 0; begin < count; begin += kLanes) {
    const Found found =
        round(values.data() + begin, factor, rounded.data() + begin, lanes.sum.data(),
              lanes.max.data(), std::min(kLanes, count - begin));
    result.drift.count += found.nonzero;
    not_finite |= found.not_finite;
  }
  for (int64_t lane = 0; lane < kLanes; ++lane) {
    result.drift.sum += lanes.sum[lane];
    result.drift.max = std::max<double>(result.drift.max, lanes.max[lane]);
  }
  if (not_finite != 0) {
    result.not_finite =
        std::find_if(rounded.begin(), rounded.end(),
                     [type](uint16_t half) { return !IsFinite(type, half); }) -
        rounded.begin();
  }
  return result;
}

void Widen(SixteenBits type, std::span<const uint16_t> values, std::span<float> widened) {
  (type == SixteenBits::kBf16 ? WidenBf16 : WidenFp16)(
      values.data(), widened.data(), static_cast<int64_t>(values.size()));
}

void AddRounded(SixteenBits type, std::span<uint16_t> sum,
                std::span<const uint16_t> addend) {
  (type == SixteenBits::kBf16 ? AddBf16 : AddFp16)(sum.data(), addend.data(),
                                                   static_cast<int64_t>(sum.size()));
}

}  // namespace psring
