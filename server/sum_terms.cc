#include "server/sum_terms.h"

#include <array>
#include <cstdint>
#include <cstring>

#include "common/vectorize.h"
#include "glog/logging.h"

namespace psring {
namespace {

using Terms = std::array<const std::byte*, kMostTerms>;

// Compilers make plain unaligned loads of the copies.
inline __attribute__((always_inline)) float At(const std::byte* floats, int64_t i) {
  float value;
  std::memcpy(&value, floats + i * static_cast<int64_t>(sizeof(float)), sizeof(value));
  return value;
}

// The number of terms is a constant, so that the loop over elements has none in it.
template <bool kBegin, size_t kCount>
inline __attribute__((always_inline)) void Sum(const Terms& terms, float factor,
                                               float* __restrict sum, int64_t count) {
  const std::byte* __restrict const a = terms[0];
  const std::byte* __restrict const b = terms[1];
  const std::byte* __restrict const c = terms[2];
  const std::byte* __restrict const d = terms[3];
  for (int64_t i = 0; i < count; ++i) {
    float value = kBegin ? At(a, i) : sum[i] + At(a, i);
    if constexpr (kCount > 1) value = value + At(b, i);
    if constexpr (kCount > 2) value = value + At(c, i);
    if constexpr (kCount > 3) value = value + At(d, i);
    sum[i] = value * factor;
  }
}

PSRING_VECTORIZED
void Begin(const Terms& terms, size_t terms_count, float factor, float* __restrict sum,
           int64_t count) {
  switch (terms_count) {
    case 1:
      return Sum<true, 1>(terms, factor, sum, count);
    case 2:
      return Sum<true, 2>(terms, factor, sum, count);
    case 3:
      return Sum<true, 3>(terms, factor, sum, count);
    default:
      return Sum<true, 4>(terms, factor, sum, count);
  }
}

PSRING_VECTORIZED
void Add(const Terms& terms, size_t terms_count, float factor, float* __restrict sum,
         int64_t count) {
  switch (terms_count) {
    case 1:
      return Sum<false, 1>(terms, factor, sum, count);
    case 2:
      return Sum<false, 2>(terms, factor, sum, count);
    case 3:
      return Sum<false, 3>(terms, factor, sum, count);
    default:
      return Sum<false, 4>(terms, factor, sum, count);
  }
}

}  // namespace

void SumTerms(bool begin, std::span<const Bytes> terms, float factor,
              std::span<float> sum) {
  CHECK(!terms.empty() && terms.size() <= kMostTerms);
  Terms data{};
  for (size_t i = 0; i < terms.size(); ++i) {
    CHECK_EQ(terms[i].size(), sum.size_bytes());
    data[i] = terms[i].data();
  }
  const auto count = static_cast<int64_t>(sum.size());
  if (begin) {
    Begin(data, terms.size(), factor, sum.data(), count);
  } else {
    Add(data, terms.size(), factor, sum.data(), count);
  }
}

}  // namespace psring
