#include "common/optimizer.h"

#include "common/vectorize.h"
#include "glog/logging.h"

namespace psring {
namespace {

PSRING_VECTORIZED
void ApplySgd(float* __restrict parameters, const float* __restrict gradient,
              float learning_rate, float weight_decay, int64_t count) {
  for (int64_t i = 0; i < count; ++i) {
    parameters[i] -= learning_rate * (gradient[i] + weight_decay * parameters[i]);
  }
}

PSRING_VECTORIZED
void ApplyMomentum(float* __restrict parameters, float* __restrict velocity,
                   const float* __restrict gradient, float learning_rate, float momentum,
                   float weight_decay, int64_t count) {
  for (int64_t i = 0; i < count; ++i) {
    velocity[i] = momentum * velocity[i] + (gradient[i] + weight_decay * parameters[i]);
    parameters[i] -= learning_rate * velocity[i];
  }
}

}  // namespace

SliceOptimizer::SliceOptimizer(const Optimizer& settings, int64_t count)
    : settings_(settings.sgd()), velocity_(settings_.momentum() != 0 ? count : 0) {
  CHECK(settings.has_sgd());
}

void SliceOptimizer::Apply(int64_t offset, std::span<float> parameters,
                           std::span<const float> gradient) {
  const int64_t count = static_cast<int64_t>(parameters.size());
  CHECK_EQ(parameters.size(), gradient.size());
  if (velocity_.empty()) {
    ApplySgd(parameters.data(), gradient.data(), settings_.learning_rate(),
             settings_.weight_decay(), count);
    return;
  }
  CHECK_LE(offset + count, static_cast<int64_t>(velocity_.size()));
  ApplyMomentum(parameters.data(), velocity_.data() + offset, gradient.data(),
                settings_.learning_rate(), settings_.momentum(), settings_.weight_decay(),
                count);
}

}  // namespace psring
