#include "common/sixteen_bits.h"

#include <algorithm>
#include <array>
#include <cmath>

#include "common/float_bits.h"
#include "common/host_device.h"
#include "common/sixteen_bits_rounding.h"
#include "common/vectorize.h"

namespace psring {
namespace {

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
PSRING_HOST_DEVICE Found RoundBlock(const float* values, float factor, uint16_t* to,
                                    float* sum, float* max, int64_t count) {
  uint32_t nonzero = 0;
  uint32_t not_finite = 0;
  for (int64_t i = 0; i < count; ++i) {
    const float value = values[i] * factor;
    const uint16_t half = Type::Round(value);
    to[i] = half;
    const float widened = Type::Widen(half);
    const uint32_t bits = BitCast<uint32_t>(widened);
    not_finite |= Pick((bits & float_bits::kInfinity) == float_bits::kInfinity, 1, 0);
    const uint32_t magnitude = BitCast<uint32_t>(value) & float_bits::kMagnitude;
    nonzero += Pick(magnitude != 0, 1, 0);
    // 0 / 1 for a value of 0, whose change is none.
    const float over =
        BitCast<float>(Pick(magnitude != 0, magnitude, BitCast<uint32_t>(1.0f)));
    const float drift = std::fabs(widened - value) / over;
    sum[i] += drift;
    max[i] = drift > max[i] ? drift : max[i];
  }
  return {.nonzero = nonzero, .not_finite = not_finite};
}

template <typename Type>
PSRING_HOST_DEVICE void WidenAll(const uint16_t* values, float* to, int64_t count) {
  for (int64_t i = 0; i < count; ++i) to[i] = Type::Widen(values[i]);
}

template <typename Type>
PSRING_HOST_DEVICE void AddAll(uint16_t* __restrict sum,
                               const uint16_t* __restrict addend, int64_t count) {
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
