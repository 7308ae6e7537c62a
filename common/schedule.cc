#include "common/schedule.h"

#include <algorithm>
#include <cmath>
#include <numbers>

#include "glog/logging.h"

namespace psring {
namespace {

double LearningRateFactor(const Schedule& schedule, int64_t steps, int64_t step) {
  const int64_t warmup = schedule.warmup_steps();
  if (step < warmup) return static_cast<double>(step + 1) / static_cast<double>(warmup);
  const int64_t t = step - warmup;
  switch (schedule.after_warmup_case()) {
    case Schedule::kConstant:
    case Schedule::AFTER_WARMUP_NOT_SET:
      return 1;
    case Schedule::kCosine: {
      const double last = schedule.cosine().final_factor();
      const int64_t length =
          schedule.cosine().steps() > 0 ? schedule.cosine().steps() : steps - warmup;
      if (t >= length) return last;
      const double angle =
          std::numbers::pi * static_cast<double>(t) / static_cast<double>(length);
      return last + (1 - last) * (1 + std::cos(angle)) / 2;
    }
    case Schedule::kStepDecay: {
      const int64_t decays = t / schedule.step_decay().every();  // Whole ones.
      return std::pow(static_cast<double>(schedule.step_decay().factor()),
                      static_cast<double>(decays));
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

StepConstants StepConstantsAt(const Optimizer& settings, int64_t steps, int64_t step) {
  CHECK_GE(step, 0);
  const double learning_rate =
      BaseLearningRate(settings) * LearningRateFactor(settings.schedule(), steps, step);
  StepConstants constants = {.learning_rate = static_cast<float>(learning_rate)};
  if (settings.has_adam() || settings.has_adamw()) {
    const Adam& adam = settings.has_adam() ? settings.adam() : settings.adamw();
    constants.adam_step_size =
        static_cast<float>(learning_rate / BiasCorrection(adam.beta1(), step + 1));
    constants.adam_root_scale =
        static_cast<float>(1 / std::sqrt(BiasCorrection(adam.beta2(), step + 1)));
  }
  return constants;
}

}  // namespace psring
