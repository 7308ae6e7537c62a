#include "worker/model.h"

#include <cmath>

#include "glog/logging.h"

namespace psring {
namespace {

// SplitMix64's output for the state seed + (index + 1) * gamma: a counter-based draw, so
// that an element's value does not depend on how many came before it.
uint64_t Draw(uint64_t seed, uint64_t index) {
  uint64_t x = seed * 0xd1342543de82ef95u + (index + 1) * 0x9e3779b97f4a7c15u;
  x = (x ^ (x >> 30)) * 0xbf58476d1ce4e5b9u;
  x = (x ^ (x >> 27)) * 0x94d049bb133111ebu;
  return x ^ (x >> 31);
}

}  // namespace

void InitializeParameters(const ParameterLayout& layout, uint64_t seed,
                          std::span<float> parameters) {
  CHECK_EQ(static_cast<int64_t>(parameters.size()), layout.count());
  for (const Tensor& tensor : layout.tensors()) {
    const bool is_weight = tensor.shape.size() > 1;
    const double bound =
        is_weight ? std::sqrt(6.0 / static_cast<double>(tensor.shape[0])) : 0.0;
    for (int64_t i = tensor.range.begin; i < tensor.range.end(); ++i) {
      // 53 random bits: uniform in [-1, 1).
      const double unit = static_cast<double>(Draw(seed, i) >> 11) * 0x1p-52 - 1.0;
      parameters[i] = is_weight ? static_cast<float>(unit * bound) : 0.0f;
    }
  }
}

}  // namespace psring
