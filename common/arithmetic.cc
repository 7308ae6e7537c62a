#include "common/arithmetic.h"

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

}  // namespace psring
