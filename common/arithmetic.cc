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

PSRING_VECTORIZED
void Compensate(float* __restrict gradient, float lambda, const float* __restrict now,
                const float* __restrict read, int64_t count) {
  for (int64_t i = 0; i < count; ++i) {
    gradient[i] += lambda * gradient[i] * gradient[i] * (now[i] - read[i]);
  }
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

}  // namespace psring
