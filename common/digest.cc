#include "common/digest.h"

#include "common/digest_term.h"
#include "common/vectorize.h"

namespace psring {
namespace {

PSRING_VECTORIZED
uint64_t SumOfTerms(const float* values, uint64_t first_index, int64_t count) {
  uint64_t sum = 0;
  for (int64_t i = 0; i < count; ++i) {
    sum += DigestTerm(values[i], first_index + static_cast<uint64_t>(i));
  }
  return sum;
}

}  // namespace

uint64_t Digest(std::span<const float> values, int64_t first_index) {
  return SumOfTerms(values.data(), static_cast<uint64_t>(first_index),
                    static_cast<int64_t>(values.size()));
}

}  // namespace psring
