#include "common/digest.h"

#include <bit>

#include "common/vectorize.h"

namespace psring {
namespace {

// The finalizer of SplitMix64 (Steele, Lea, Flood 2014) over the element's bits beside
// its index, so that both a changed value and two exchanged ones show.
PSRING_VECTORIZED
uint64_t SumOfMixes(const float* values, uint64_t first_index, int64_t count) {
  uint64_t sum = 0;
  for (int64_t i = 0; i < count; ++i) {
    uint64_t x = std::bit_cast<uint32_t>(values[i]) +
                 (first_index + static_cast<uint64_t>(i) + 1) * 0x9e3779b97f4a7c15u;
    x = (x ^ (x >> 30)) * 0xbf58476d1ce4e5b9u;
    x = (x ^ (x >> 27)) * 0x94d049bb133111ebu;
    sum += x ^ (x >> 31);
  }
  return sum;
}

}  // namespace

uint64_t Digest(std::span<const float> values, int64_t first_index) {
  return SumOfMixes(values.data(), static_cast<uint64_t>(first_index),
                    static_cast<int64_t>(values.size()));
}

}  // namespace psring
