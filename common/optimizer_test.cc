#include "common/optimizer.h"

#include <algorithm>
#include <bit>
#include <cmath>
#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "common/schedule.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"

namespace psring {
namespace {

using testing::ElementsAre;

Optimizer SgdOf(float learning_rate, float momentum, float weight_decay,
                bool nesterov = false) {
  Optimizer optimizer;
  Sgd* const sgd = optimizer.mutable_sgd();
  sgd->set_learning_rate(learning_rate);
  sgd->set_momentum(momentum);
  sgd->set_weight_decay(weight_decay);
  sgd->set_nesterov(nesterov);
  return optimizer;
}

Adam AdamOf(float learning_rate, float beta1, float beta2, float epsilon,
            float weight_decay) {
  Adam adam;
  adam.set_learning_rate(learning_rate);
  adam.set_beta1(beta1);
  adam.set_beta2(beta2);
  adam.set_epsilon(epsilon);
  adam.set_weight_decay(weight_decay);
  return adam;
}

Optimizer AdagradOf(float learning_rate, float epsilon, float weight_decay,
                    float initial_accumulator) {
  Optimizer optimizer;
  Adagrad* const adagrad = optimizer.mutable_adagrad();
  adagrad->set_learning_rate(learning_rate);
  adagrad->set_epsilon(epsilon);
  adagrad->set_weight_decay(weight_decay);
  adagrad->set_initial_accumulator(initial_accumulator);
  return optimizer;
}

// One of each, with every setting in use.
struct Case {
  std::string name;
  Optimizer settings;
};
std::vector<Case> AllOptimizers() {
  std::vector<Case> all = {
      {"plain SGD", SgdOf(0.1f, 0, 1e-2f)},
      {"momentum", SgdOf(0.1f, 0.9f, 1e-2f)},
      {"nesterov", SgdOf(0.1f, 0.9f, 1e-2f, true)},
      {"adam", {}},
      {"adamw", {}},
      {"adagrad", AdagradOf(0.1f, 1e-10f, 1e-2f, 0.1f)},
  };
  *all[3].settings.mutable_adam() = AdamOf(0.01f, 0.9f, 0.999f, 1e-8f, 1e-2f);
  *all[4].settings.mutable_adamw() = AdamOf(0.01f, 0.9f, 0.999f, 1e-8f, 1e-2f);
  for (Case& c : all) {
    c.settings.mutable_schedule()->set_warmup_steps(7);
    c.settings.mutable_schedule()->mutable_cosine()->set_final_factor(0.1f);
  }
  return all;
}

constexpr int64_t kSteps = 200;
constexpr int kCount = 103;

std::vector<float> InitialParameters() {
  std::vector<float> parameters(kCount);
  for (int i = 0; i < kCount; ++i) parameters[i] = 1.0f / static_cast<float>(i + 3);
  return parameters;
}

// Changes its sign and size from step to step and from element to element; never zero.
std::vector<float> GradientOf(int64_t step) {
  std::vector<float> gradient(kCount);
  for (int i = 0; i < kCount; ++i) {
    gradient[i] = static_cast<float>((i * 31 + step * 17) % 41) * 0.05f - 0.93f;
  }
  return gradient;
}

// One update of one parameter.
float Updated(SliceOptimizer& optimizer, float parameter, float gradient,
              const StepConstants& constants) {
  std::vector<float> parameters = {parameter};
  optimizer.Apply(constants, 0, parameters, std::vector<float>{gradient});
  return parameters[0];
}

// In the tests by hand all values are exact in binary.
TEST(SliceOptimizerTest, PlainSgdByHand) {
  SliceOptimizer optimizer(SgdOf(0.5f, 0, 0), 2);
  std::vector<float> parameters = {1.0f, -2.0f};
  optimizer.Apply({.learning_rate = 0.5f}, 0, parameters, std::vector<float>{2.0f, 4.0f});
  EXPECT_THAT(parameters, ElementsAre(0.0f, -4.0f));
}

TEST(SliceOptimizerTest, TheConstantsRateCountsNotTheSettings) {
  SliceOptimizer optimizer(SgdOf(0.5f, 0, 0), 1);
  EXPECT_EQ(Updated(optimizer, 1, 2, {.learning_rate = 0.25f}), 0.5f);
  EXPECT_EQ(Updated(optimizer, 1, 2, {.learning_rate = 0}), 1);
}

TEST(SliceOptimizerTest, WeightDecayAddsToTheGradient) {
  SliceOptimizer optimizer(SgdOf(0.5f, 0, 0.25f), 1);
  EXPECT_EQ(Updated(optimizer, 4, 1, {.learning_rate = 0.5f}),
            4.0f - 0.5f * (1.0f + 0.25f * 4.0f));
}

TEST(SliceOptimizerTest, MomentumByHandOverTwoSteps) {
  SliceOptimizer optimizer(SgdOf(0.5f, 0.5f, 0), 1);
  const StepConstants constants = {.learning_rate = 0.5f};
  EXPECT_EQ(Updated(optimizer, 8, 4, constants), 6);  // velocity 4
  EXPECT_EQ(Updated(optimizer, 6, 2, constants), 4);  // velocity 0.5 * 4 + 2 = 4
}

TEST(SliceOptimizerTest, NesterovByHandOverTwoSteps) {
  SliceOptimizer optimizer(SgdOf(0.5f, 0.5f, 0, /*nesterov=*/true), 1);
  const StepConstants constants = {.learning_rate = 0.5f};
  // velocity 4, step 4 + 0.5 * 4 = 6; velocity 0.5 * 4 + 2 = 4, step 2 + 0.5 * 4 = 4.
  EXPECT_EQ(Updated(optimizer, 8, 4, constants), 5);
  EXPECT_EQ(Updated(optimizer, 5, 2, constants), 3);
}

TEST(SliceOptimizerTest, AdamByHandOverTwoSteps) {
  Optimizer settings;
  *settings.mutable_adam() = AdamOf(1, 0.5f, 0.75f, 4, 0.5f);
  SliceOptimizer optimizer(settings, 1);
  // g = 2 + 0.5 * 4 = 4; means 2 and 4, corrected 4 and 16; 1 * 4 / (4 + 4).
  EXPECT_EQ(Updated(optimizer, 4, 2, StepConstantsAt(settings, 10, 0)), 3.5f);
  // g = -3.75 + 0.5 * 3.5 = -2; means 0.5 * 2 - 1 = 0 and 0.75 * 4 + 1 = 4.
  EXPECT_EQ(Updated(optimizer, 3.5f, -3.75f, StepConstantsAt(settings, 10, 1)), 3.5f);
  // g = 0.25 + 0.5 * 3.5 = 2; means 1 and 4; by constants that keep it exact, the step
  // is 2 * 1 / (2 * 2 + 4).
  EXPECT_EQ(Updated(optimizer, 3.5f, 0.25f, {.adam_step_size = 2, .adam_root_scale = 2}),
            3.25f);
}

TEST(SliceOptimizerTest, AdamWDecaysApartFromTheGradient) {
  Optimizer settings;
  *settings.mutable_adamw() = AdamOf(0.5f, 0.5f, 0.75f, 4, 0.5f);
  SliceOptimizer optimizer(settings, 1);
  // 8 * (1 - 0.5 * 0.5) = 6; means 2 and 4, corrected 4 and 16; 0.5 * 4 / (4 + 4).
  EXPECT_EQ(Updated(optimizer, 8, 4, StepConstantsAt(settings, 10, 0)), 5.75f);
}

TEST(SliceOptimizerTest, AdagradByHandOverTwoSteps) {
  SliceOptimizer optimizer(AdagradOf(0.5f, 4, 0.25f, 7), 1);
  const StepConstants constants = {.learning_rate = 0.5f};
  // g = 1 + 0.25 * 8 = 3; sum 7 + 9 = 16; 0.5 * 3 / (4 + 4).
  EXPECT_EQ(Updated(optimizer, 8, 1, constants), 7.8125f);
  // g = 3 + 0; sum 16 + 9 = 25; 6 * 3 / (5 + 4).
  EXPECT_EQ(Updated(optimizer, 0, 3, {.learning_rate = 6}), -2);
}

TEST(SliceOptimizerTest, StateIsWhatTheFunctionSays) {
  const std::vector<int64_t> floats = {0, 1, 1, 2, 2, 1};
  const std::vector<Case> all = AllOptimizers();
  for (size_t i = 0; i < all.size(); ++i) {
    EXPECT_EQ(OptimizerStateBytesPerElement(all[i].settings), 4 * floats[i])
        << all[i].name;
    const auto gauge = std::make_shared<MemoryGauge>();
    EXPECT_EQ(SliceOptimizer(all[i].settings, 10, gauge).state_bytes(), 40 * floats[i])
        << all[i].name;
    EXPECT_EQ(gauge->peak(), 40 * floats[i]) << all[i].name;
    EXPECT_EQ(gauge->now(), 0) << all[i].name;
  }
}

TEST(SliceOptimizerTest, CutSlicesGiveTheSameBits) {
  for (const Case& c : AllOptimizers()) {
    std::vector<float> whole = InitialParameters(), cut = InitialParameters();
    SliceOptimizer at_once(c.settings, kCount), in_parts(c.settings, kCount);
    for (int64_t step = 0; step < 5; ++step) {
      const StepConstants constants = StepConstantsAt(c.settings, kSteps, step);
      const std::vector<float> gradient = GradientOf(step);
      at_once.Apply(constants, 0, whole, gradient);
      for (int begin = 0; begin < kCount; begin += 17) {
        const int count = std::min(17, kCount - begin);
        in_parts.Apply(constants, begin, std::span(cut).subspan(begin, count),
                       std::span(gradient).subspan(begin, count));
      }
      EXPECT_EQ(whole, cut) << c.name << " after step " << step;
    }
  }
}

// The formulas as published, over any type of number.
template <typename Number>
struct Reference {
  Number parameter, first = Number(0), second = Number(0);

  void Apply(const Optimizer& settings, double learning_rate, int64_t step,
             Number gradient) {
    const Number lr(learning_rate);
    if (settings.has_sgd()) {
      const Sgd& sgd = settings.sgd();
      const Number mu(sgd.momentum());
      const Number g = gradient + Number(sgd.weight_decay()) * parameter;
      first = mu * first + g;
      parameter = parameter - lr * (sgd.nesterov() ? g + mu * first : first);
    } else if (settings.has_adagrad()) {
      const Adagrad& adagrad = settings.adagrad();
      if (step == 0) second = Number(adagrad.initial_accumulator());
      const Number g = gradient + Number(adagrad.weight_decay()) * parameter;
      second = second + g * g;
      parameter = parameter - lr * g / (Sqrt(second) + Number(adagrad.epsilon()));
    } else {
      const bool decoupled = settings.has_adamw();
      const Adam& adam = decoupled ? settings.adamw() : settings.adam();
      const Number decay(adam.weight_decay());
      const Number g = decoupled ? gradient : gradient + decay * parameter;
      if (decoupled) parameter = parameter - lr * decay * parameter;
      first = Number(adam.beta1()) * first + Number(1 - double{adam.beta1()}) * g;
      second = Number(adam.beta2()) * second + Number(1 - double{adam.beta2()}) * (g * g);
      const double t = static_cast<double>(step + 1);
      const Number mean = first / Number(1 - std::pow(double{adam.beta1()}, t));
      const Number square = second / Number(1 - std::pow(double{adam.beta2()}, t));
      parameter = parameter - lr * mean / (Sqrt(square) + Number(adam.epsilon()));
    }
  }
};

// A double together with a bound of how far the same computation in float is from it:
// each result is off by what its operands' errors make of it, and by half a unit in the
// last place of its own.
struct Bounded {
  double value = 0;
  double error = 0;

  // A constant; one that is no float is off by its own rounding.
  explicit Bounded(double v) : Bounded(v, 0) {
    if (static_cast<double>(static_cast<float>(v)) == v) error = 0;
  }
  Bounded(double v, double inherited)
      : value(v), error(inherited + (std::fabs(v) + inherited) * 0x1p-24) {}
};
Bounded operator+(Bounded a, Bounded b) {
  return Bounded(a.value + b.value, a.error + b.error);
}
Bounded operator-(Bounded a, Bounded b) {
  return Bounded(a.value - b.value, a.error + b.error);
}
Bounded operator*(Bounded a, Bounded b) {
  return Bounded(a.value * b.value,
                 std::fabs(a.value) * b.error + a.error * (std::fabs(b.value) + b.error));
}
Bounded operator/(Bounded a, Bounded b) {
  const double value = a.value / b.value;
  return Bounded(value,
                 (a.error + std::fabs(value) * b.error) / (std::fabs(b.value) - b.error));
}
Bounded Sqrt(Bounded a) {
  const double root = std::sqrt(a.value);
  // |sqrt(x) - sqrt(a)| = |x - a| / (sqrt(x) + sqrt(a))
  return Bounded(root, a.error / (root + std::sqrt(std::max(0.0, a.value - a.error))));
}

// The code rearranges the published formulas to save divisions, which at most doubles
// the number of roundings on any path.
TEST(SliceOptimizerTest, StaysWithinTheRoundingErrorsOfADoublePrecisionReference) {
  for (const Case& c : AllOptimizers()) {
    std::vector<float> parameters = InitialParameters();
    std::vector<Reference<Bounded>> reference;
    for (const float parameter : parameters) {
      reference.push_back({.parameter = Bounded(parameter)});
    }
    SliceOptimizer optimizer(c.settings, kCount);
    double widest = 0;
    for (int64_t step = 0; step < kSteps; ++step) {
      const StepConstants constants = StepConstantsAt(c.settings, kSteps, step);
      const std::vector<float> gradient = GradientOf(step);
      optimizer.Apply(constants, 0, parameters, gradient);
      for (int i = 0; i < kCount; ++i) {
        reference[i].Apply(c.settings, constants.learning_rate, step,
                           Bounded(gradient[i]));
        const Bounded& expected = reference[i].parameter;
        ASSERT_NEAR(parameters[i], expected.value, 2 * expected.error)
            << c.name << ", element " << i << " after step " << step;
        widest = std::max(widest, 2 * expected.error);
      }
    }
    // Steps are hundredths and more: a bound this tight notices one that is wrong.
    EXPECT_LT(widest, 1e-3) << c.name;
  }
}

// Each operation apart, so that nothing can be contracted, reassociated or estimated.
struct PlainFloat {
  float value = 0;
  explicit PlainFloat(double v) : value(static_cast<float>(v)) {}
};
PlainFloat operator+(PlainFloat a, PlainFloat b) {
  volatile float result = a.value + b.value;
  return PlainFloat(result);
}
PlainFloat operator-(PlainFloat a, PlainFloat b) {
  volatile float result = a.value - b.value;
  return PlainFloat(result);
}
PlainFloat operator*(PlainFloat a, PlainFloat b) {
  volatile float result = a.value * b.value;
  return PlainFloat(result);
}
PlainFloat operator/(PlainFloat a, PlainFloat b) {
  volatile float result = a.value / b.value;
  return PlainFloat(result);
}
PlainFloat Sqrt(PlainFloat a) {
  volatile float result = std::sqrt(a.value);
  return PlainFloat(result);
}

// The one kind whose code differs from the published order of operations.
float PlainAdam(const Adam& adam, const StepConstants& constants, float parameter,
                float gradient, PlainFloat* first, PlainFloat* second) {
  const auto f = [](double v) { return PlainFloat(v); };
  const PlainFloat g = f(gradient) + f(adam.weight_decay()) * f(parameter);
  *first = f(adam.beta1()) * *first + (f(1) - f(adam.beta1())) * g;
  *second = f(adam.beta2()) * *second + (f(1) - f(adam.beta2())) * (g * g);
  const PlainFloat root =
      f(constants.adam_root_scale) * Sqrt(*second) + f(adam.epsilon());
  return (f(parameter) - f(constants.adam_step_size) * *first / root).value;
}

TEST(SliceOptimizerTest, VectorLoopsGiveTheBitsOfSingleOperations) {
  for (const Case& c : AllOptimizers()) {
    if (c.settings.has_adamw()) continue;  // Adam's loop.
    std::vector<float> parameters = InitialParameters();
    std::vector<Reference<PlainFloat>> reference;
    for (const float parameter : parameters) {
      reference.push_back({.parameter = PlainFloat(parameter)});
    }
    SliceOptimizer optimizer(c.settings, kCount);
    for (int64_t step = 0; step < 20; ++step) {
      const StepConstants constants = StepConstantsAt(c.settings, kSteps, step);
      const std::vector<float> gradient = GradientOf(step);
      optimizer.Apply(constants, 0, parameters, gradient);
      for (int i = 0; i < kCount; ++i) {
        Reference<PlainFloat>& r = reference[i];
        if (c.settings.has_adam()) {
          r.parameter =
              PlainFloat(PlainAdam(c.settings.adam(), constants, r.parameter.value,
                                   gradient[i], &r.first, &r.second));
        } else {
          r.Apply(c.settings, constants.learning_rate, step, PlainFloat(gradient[i]));
        }
        ASSERT_EQ(std::bit_cast<uint32_t>(parameters[i]),
                  std::bit_cast<uint32_t>(r.parameter.value))
            << c.name << ", element " << i << " after step " << step;
      }
    }
  }
}

}  // namespace
}  // namespace psring
