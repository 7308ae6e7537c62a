#include "common/update_factors.h"

#include "glog/logging.h"

namespace psring {
namespace {

UpdateFactors SgdFactors(const Sgd& sgd, const StepConstants& constants) {
  return {.learning_rate = constants.learning_rate,
          .gradient_decay = sgd.weight_decay(),
          .momentum = sgd.momentum()};
}

UpdateFactors AdamFactors(const Adam& adam, const StepConstants& constants) {
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

UpdateFactors AdamWFactors(const Adam& adam, const StepConstants& constants) {
  UpdateFactors factors = AdamFactors(adam, constants);
  factors.gradient_decay = 0;
  factors.keep = 1 - constants.learning_rate * adam.weight_decay();
  return factors;
}

UpdateFactors AdagradFactors(const Adagrad& adagrad, const StepConstants& constants) {
  return {.learning_rate = constants.learning_rate,
          .gradient_decay = adagrad.weight_decay(),
          .epsilon = adagrad.epsilon()};
}

}  // namespace

UpdateRule RuleOf(const Optimizer& settings) {
  switch (settings.kind_case()) {
    case Optimizer::kSgd:
      if (settings.sgd().momentum() == 0) return UpdateRule::kSgd;
      return settings.sgd().nesterov() ? UpdateRule::kNesterov : UpdateRule::kMomentum;
    case Optimizer::kAdam:
    case Optimizer::kAdamw:
      return UpdateRule::kAdam;
    case Optimizer::kAdagrad:
      return UpdateRule::kAdagrad;
    case Optimizer::KIND_NOT_SET:
      break;
  }
  LOG(FATAL) << "an optimizer without a kind";
}

UpdateFactors FactorsOf(const Optimizer& settings, const StepConstants& constants) {
  switch (settings.kind_case()) {
    case Optimizer::kSgd:
      return SgdFactors(settings.sgd(), constants);
    case Optimizer::kAdam:
      return AdamFactors(settings.adam(), constants);
    case Optimizer::kAdamw:
      return AdamWFactors(settings.adamw(), constants);
    case Optimizer::kAdagrad:
      return AdagradFactors(settings.adagrad(), constants);
    case Optimizer::KIND_NOT_SET:
      break;
  }
  LOG(FATAL) << "an optimizer without a kind";
}

}  // namespace psring
