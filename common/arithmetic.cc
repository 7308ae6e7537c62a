#include "common/arithmetic.h"

#include <algorithm>
#include <cstring>

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

// Values of which all exponent bits are set, and no others, are not finite. Their bits
// are compared as integers, so that the loop has no branch and no floating-point mode
// matters.
constexpr uint32_t kExponentBits = 0x7f800000;

bool IsFinite(const float& value) {
  uint32_t bits;
  std::memcpy(&bits, &value, sizeof(bits));
  return (bits & kExponentBits) != kExponentBits;
}

PSRING_VECTORIZED
bool AllFinite(const float* values, int64_t count) {
  uint32_t found = 0;
  for (int64_t i = 0; i < count; ++i) {
    uint32_t bits;
    std::memcpy(&bits, values + i, sizeof(bits));
    found |= (bits & kExponentBits) == kExponentBits ? 1 : 0;
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

// Blocks are far smaller than a cache, so that one with a find in it is looked through
// again for free.
std::optional<int64_t> FirstNonFinite(std::span<const float> values) {
  constexpr size_t kScanBlock = 4096;
  for (size_t begin = 0; begin < values.size(); begin += kScanBlock) {
    const auto block = values.subspan(begin, std::min(kScanBlock, values.size() - begin));
    if (AllFinite(block.data(), static_cast<int64_t>(block.size()))) continue;
    return std::find_if_not(block.begin(), block.end(), IsFinite) - values.begin();
  }
  return std::nullopt;
}

}  // namespace psring
