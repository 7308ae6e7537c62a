#include "common/schedule.h"

#include <algorithm>
#include <cmath>
#include <numbers>

#include "glog/logging.h"

namespace psring {
namespace {

double LearningRateFactor(const Schedule& schedule, int64_t steps, double position) {
  const auto warmup = static_cast<double>(schedule.warmup_steps());
  if (position < warmup) return (position + 1) / warmup;
  const double t = position - warmup;
  switch (schedule.after_warmup_case()) {
    case Schedule::kConstant:
    case Schedule::AFTER_WARMUP_NOT_SET:
      return 1;
    case Schedule::kCosine: {
      const double last = schedule.cosine().final_factor();
      const double length = schedule.cosine().steps() > 0
                                ? static_cast<double>(schedule.cosine().steps())
                                : static_cast<double>(steps) - warmup;
      if (t >= length) return last;
      const double angle = std::numbers::pi * t / length;
      return last + (1 - last) * (1 + std::cos(angle)) / 2;
    }
    case Schedule::kStepDecay: {
      const double decays =
          std::floor(t / static_cast<double>(schedule.step_decay().every()));
      return std::pow(static_cast<double>(schedule.step_decay().factor()), decays);
    }
  }
  LOG(FATAL) << "a schedule of an unknown kind";
}

// 1 - beta^t, by which an average that started at zero falls short after t terms.
double BiasCorrection(float beta, int64_t t) {
  return 1 - std::pow(static_cast<double>(beta), static_cast<double>(t));
}

}  // namespace

float BaseLearningRate(const Optimizer& settings) {
  switch (settings.kind_case()) {
    case Optimizer::kSgd:
      return settings.sgd().learning_rate();
    case Optimizer::kAdam:
      return settings.adam().learning_rate();
    case Optimizer::kAdamw:
      return settings.adamw().learning_rate();
    case Optimizer::kAdagrad:
      return settings.adagrad().learning_rate();
    case Optimizer::KIND_NOT_SET:
      break;
  }
  LOG(FATAL) << "an optimizer without a kind";
}

StepConstants StepConstantsAt(const Optimizer& settings, int64_t steps, double position,
                              int64_t updates) {
  CHECK(position >= 0 && updates >= 0);
  const double learning_rate = BaseLearningRate(settings) *
                               LearningRateFactor(settings.schedule(), steps, position);
  StepConstants constants = {.learning_rate = static_cast<float>(learning_rate)};
  if (settings.has_adam() || settings.has_adamw()) {
    const Adam& adam = settings.has_adam() ? settings.adam() : settings.adamw();
    constants.adam_step_size =
        static_cast<float>(learning_rate / BiasCorrection(adam.beta1(), updates + 1));
    constants.adam_root_scale =
        static_cast<float>(1 / std::sqrt(BiasCorrection(adam.beta2(), updates + 1)));
  }
  return constants;
}

}  // namespace psring
