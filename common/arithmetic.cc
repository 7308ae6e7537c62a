#include "common/arithmetic.h"

#include <algorithm>
#include <cstring>
#include <limits>

#include "common/float_bits.h"
#include "common/vectorize.h"

namespace psring {
namespace {

PSRING_VECTORIZED
void Add(float* __restrict sum, const float* __restrict addend, int64_t count) {
  for (int64_t i = 0; i < count; ++i) sum[i] += addend[i];
}

// Compilers make plain unaligned loads of the copies.
PSRING_VECTORIZED
void AddBytes(float* __restrict sum, const std::byte* __restrict addend, int64_t count) {
  for (int64_t i = 0; i < count; ++i) {
    float value;
    std::memcpy(&value, addend + i * sizeof(float), sizeof(float));
    sum[i] += value;
  }
}

PSRING_VECTORIZED
void Scale(float* values, float factor, int64_t count) {
  for (int64_t i = 0; i < count; ++i) values[i] *= factor;
}

PSRING_VECTORIZED
void Compensate(float* __restrict gradient, float lambda, const float* __restrict now,
                const float* __restrict read, int64_t count) {
  for (int64_t i = 0; i < count; ++i) {
    gradient[i] += lambda * gradient[i] * gradient[i] * (now[i] - read[i]);
  }
}

PSRING_VECTORIZED
bool AllWithin(const float* values, int32_t largest, int64_t count) {
  uint32_t found = 0;
  for (int64_t i = 0; i < count; ++i) {
    found |= MagnitudeBits(values[i]) > largest ? 1 : 0;
  }
  return found == 0;
}

}  // namespace

void AddInPlace(std::span<float> sum, std::span<const float> addend) {
  Add(sum.data(), addend.data(), static_cast<int64_t>(sum.size()));
}

void AddBytesInPlace(std::span<float> sum, std::span<const std::byte> addend) {
  AddBytes(sum.data(), addend.data(), static_cast<int64_t>(sum.size()));
}

void ScaleInPlace(std::span<float> values, float factor) {
  Scale(values.data(), factor, static_cast<int64_t>(values.size()));
}

void CompensateDelay(std::span<float> gradient, float lambda, std::span<const float> now,
                     std::span<const float> read) {
  Compensate(gradient.data(), lambda, now.data(), read.data(),
             static_cast<int64_t>(gradient.size()));
}

std::optional<int64_t> FirstNonFinite(std::span<const float> values) {
  return FirstBeyond(values, std::numeric_limits<float>::max());
}

// Blocks are far smaller than a cache, so that one with a find in it is looked through
// again for free.
std::optional<int64_t> FirstBeyond(std::span<const float> values, float largest) {
  constexpr size_t kScanBlock = 4096;
  const int32_t limit = MagnitudeBits(largest);
  for (size_t begin = 0; begin < values.size(); begin += kScanBlock) {
    const auto block = values.subspan(begin, std::min(kScanBlock, values.size() - begin));
    if (AllWithin(block.data(), limit, static_cast<int64_t>(block.size()))) continue;
    return std::find_if(block.begin(), block.end(),
                        [limit](float value) { return MagnitudeBits(value) > limit; }) -
           values.begin();
  }
  return std::nullopt;
}

}  // namespace psring
