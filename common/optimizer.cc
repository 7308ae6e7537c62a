#include "common/optimizer.h"

#include <math.h>

#include <utility>

#include "common/vectorize.h"
#include "glog/logging.h"

namespace psring {
namespace {

// What an update needs besides the slices.
struct Factors {
  float learning_rate = 0;
  float gradient_decay = 0;  // Times the parameter, added to the gradient.
  // Of SGD.
  float momentum = 0;
  // Of Adam and AdamW.
  float beta1 = 0, new1 = 0;  // The old mean's weight and the new term's.
  float beta2 = 0, new2 = 0;
  float keep = 1;  // Of the parameter, before the step.
  float step_size = 0;
  float root_scale = 0;
  // Of all that divide.
  float epsilon = 0;
};

Factors SgdFactors(const Sgd& sgd, const StepConstants& constants) {
  return {.learning_rate = constants.learning_rate,
          .gradient_decay = sgd.weight_decay(),
          .momentum = sgd.momentum()};
}

Factors AdamFactors(const Adam& adam, const StepConstants& constants) {
  return {.learning_rate = constants.learning_rate,
          .gradient_decay = adam.weight_decay(),
          .beta1 = adam.beta1(),
          .new1 = 1 - adam.beta1(),
          .beta2 = adam.beta2(),
          .new2 = 1 - adam.beta2(),
          .step_size = constants.adam_step_size,
          .root_scale = constants.adam_root_scale,
          .epsilon = adam.epsilon()};
}

Factors AdamWFactors(const Adam& adam, const StepConstants& constants) {
  Factors factors = AdamFactors(adam, constants);
  factors.gradient_decay = 0;
  factors.keep = 1 - constants.learning_rate * adam.weight_decay();
  return factors;
}

Factors AdagradFactors(const Adagrad& adagrad, const StepConstants& constants) {
  return {.learning_rate = constants.learning_rate,
          .gradient_decay = adagrad.weight_decay(),
          .epsilon = adagrad.epsilon()};
}

PSRING_VECTORIZED
void ApplySgd(float* __restrict parameters, const float* __restrict gradient, Factors f,
              int64_t count) {
  for (int64_t i = 0; i < count; ++i) {
    parameters[i] -= f.learning_rate * (gradient[i] + f.gradient_decay * parameters[i]);
  }
}

PSRING_VECTORIZED
void ApplyMomentum(float* __restrict parameters, float* __restrict velocity,
                   const float* __restrict gradient, Factors f, int64_t count) {
  for (int64_t i = 0; i < count; ++i) {
    velocity[i] =
        f.momentum * velocity[i] + (gradient[i] + f.gradient_decay * parameters[i]);
    parameters[i] -= f.learning_rate * velocity[i];
  }
}

PSRING_VECTORIZED
void ApplyNesterov(float* __restrict parameters, float* __restrict velocity,
                   const float* __restrict gradient, Factors f, int64_t count) {
  for (int64_t i = 0; i < count; ++i) {
    const float g = gradient[i] + f.gradient_decay * parameters[i];
    velocity[i] = f.momentum * velocity[i] + g;
    parameters[i] -= f.learning_rate * (g + f.momentum * velocity[i]);
  }
}

// Adam and AdamW: one decays through the gradient, the other through `keep`.
PSRING_VECTORIZED
void ApplyAdam(float* __restrict parameters, float* __restrict first,
               float* __restrict second, const float* __restrict gradient, Factors f,
               int64_t count) {
  for (int64_t i = 0; i < count; ++i) {
    const float g = gradient[i] + f.gradient_decay * parameters[i];
    first[i] = f.beta1 * first[i] + f.new1 * g;
    second[i] = f.beta2 * second[i] + f.new2 * (g * g);
    parameters[i] =
        f.keep * parameters[i] -
        f.step_size * first[i] / (f.root_scale * sqrtf(second[i]) + f.epsilon);
  }
}

PSRING_VECTORIZED
void ApplyAdagrad(float* __restrict parameters, float* __restrict sum,
                  const float* __restrict gradient, Factors f, int64_t count) {
  for (int64_t i = 0; i < count; ++i) {
    const float g = gradient[i] + f.gradient_decay * parameters[i];
    sum[i] += g * g;
    parameters[i] -= f.learning_rate * g / (sqrtf(sum[i]) + f.epsilon);
  }
}

struct StateKept {
  bool first = false;
  bool second = false;
};

StateKept StateOf(const Optimizer& settings) {
  switch (settings.kind_case()) {
    case Optimizer::kSgd:
      return {.first = settings.sgd().momentum() != 0, .second = false};
    case Optimizer::kAdam:
    case Optimizer::kAdamw:
      return {.first = true, .second = true};
    case Optimizer::kAdagrad:
      return {.first = false, .second = true};
    case Optimizer::KIND_NOT_SET:
      break;
  }
  LOG(FATAL) << "an optimizer without a kind";
}

}  // namespace

int64_t OptimizerStateBytesPerElement(const Optimizer& settings) {
  const StateKept kept = StateOf(settings);
  return int64_t{sizeof(float)} * (int64_t{kept.first} + int64_t{kept.second});
}

SliceOptimizer::SliceOptimizer(const Optimizer& settings, int64_t count,
                               std::shared_ptr<MemoryGauge> gauge)
    : settings_(settings), count_(count) {
  const StateKept kept = StateOf(settings_);
  if (kept.first) first_.assign(count, 0.0f);
  // Zero but for Adagrad.
  if (kept.second) second_.assign(count, settings_.adagrad().initial_accumulator());
  claim_ = MemoryClaim(std::move(gauge), state_bytes());
}

std::vector<std::span<float>> SliceOptimizer::state() {
  const StateKept kept = StateOf(settings_);
  std::vector<std::span<float>> arrays;
  if (kept.first) arrays.emplace_back(first_);
  if (kept.second) arrays.emplace_back(second_);
  return arrays;
}

void SliceOptimizer::Apply(const StepConstants& constants, int64_t offset,
                           std::span<float> parameters, std::span<const float> gradient) {
  const auto count = static_cast<int64_t>(parameters.size());
  CHECK_EQ(parameters.size(), gradient.size());
  CHECK(offset >= 0 && offset + count <= count_);
  float* const p = parameters.data();
  const float* const g = gradient.data();
  float* const first = first_.data() + (first_.empty() ? 0 : offset);
  float* const second = second_.data() + (second_.empty() ? 0 : offset);
  switch (settings_.kind_case()) {
    case Optimizer::kSgd: {
      const Factors factors = SgdFactors(settings_.sgd(), constants);
      if (first_.empty()) {
        ApplySgd(p, g, factors, count);
      } else if (settings_.sgd().nesterov()) {
        ApplyNesterov(p, first, g, factors, count);
      } else {
        ApplyMomentum(p, first, g, factors, count);
      }
      return;
    }
    case Optimizer::kAdam:
      return ApplyAdam(p, first, second, g, AdamFactors(settings_.adam(), constants),
                       count);
    case Optimizer::kAdamw:
      return ApplyAdam(p, first, second, g, AdamWFactors(settings_.adamw(), constants),
                       count);
    case Optimizer::kAdagrad:
      return ApplyAdagrad(p, second, g, AdagradFactors(settings_.adagrad(), constants),
                          count);
    case Optimizer::KIND_NOT_SET:
      break;
  }
  LOG(FATAL) << "an optimizer without a kind";
}

}  // namespace psring
