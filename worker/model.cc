#include "worker/model.h"

#include <cmath>

#include "glog/logging.h"
#include "worker/draw.h"

namespace psring {
void InitializeParameters(const ParameterLayout& layout, uint64_t seed,
                          std::span<float> parameters) {
  CHECK_EQ(static_cast<int64_t>(parameters.size()), layout.count());
  for (const Tensor& tensor : layout.tensors()) {
    const bool is_weight = tensor.shape.size() > 1;
    const double bound =
        is_weight ? std::sqrt(6.0 / static_cast<double>(tensor.shape[0])) : 0.0;
    for (int64_t i = tensor.range.begin; i < tensor.range.end(); ++i) {
      parameters[i] = is_weight ? static_cast<float>(UniformDraw(seed, i) * bound) : 0.0f;
    }
  }
}

}  // namespace psring
