#include "common/schedule.h"

#include <cmath>
#include <cstdint>
#include <vector>

#include "gmock/gmock.h"
#include "gtest/gtest.h"

namespace psring {
namespace {

using testing::ElementsAre;

Optimizer SgdOf(float learning_rate) {
  Optimizer optimizer;
  optimizer.mutable_sgd()->set_learning_rate(learning_rate);
  return optimizer;
}

std::vector<float> LearningRates(const Optimizer& optimizer, int64_t steps,
                                 const std::vector<int64_t>& at) {
  std::vector<float> rates;
  for (const int64_t step : at) {
    rates.push_back(StepConstantsAt(optimizer, steps, step).learning_rate);
  }
  return rates;
}

TEST(ScheduleTest, WithoutOneTheRateIsTheOptimizersOwn) {
  Optimizer optimizer = SgdOf(0.1f);
  EXPECT_THAT(LearningRates(optimizer, 5, {0, 4, 5}), ElementsAre(0.1f, 0.1f, 0.1f));
  optimizer.mutable_schedule()->mutable_constant();
  EXPECT_THAT(LearningRates(optimizer, 5, {0, 4, 5}), ElementsAre(0.1f, 0.1f, 0.1f));
}

TEST(ScheduleTest, EveryKindHasItsOwnRate) {
  Optimizer optimizer = SgdOf(1);
  EXPECT_EQ(BaseLearningRate(optimizer), 1);
  optimizer.mutable_adam()->set_learning_rate(2);
  EXPECT_EQ(BaseLearningRate(optimizer), 2);
  optimizer.mutable_adamw()->set_learning_rate(3);
  EXPECT_EQ(BaseLearningRate(optimizer), 3);
  optimizer.mutable_adagrad()->set_learning_rate(4);
  EXPECT_EQ(BaseLearningRate(optimizer), 4);
}

TEST(ScheduleTest, WarmUpRisesInEqualStepsToTheFullRate) {
  Optimizer optimizer = SgdOf(0.5f);
  optimizer.mutable_schedule()->set_warmup_steps(4);
  EXPECT_THAT(LearningRates(optimizer, 100, {0, 1, 2, 3, 4, 99}),
              ElementsAre(0.125f, 0.25f, 0.375f, 0.5f, 0.5f, 0.5f));
}

TEST(ScheduleTest, CosineFallsFromTheEndOfWarmUpToTheEndOfTheRun) {
  Optimizer optimizer = SgdOf(2);
  optimizer.mutable_schedule()->set_warmup_steps(2);
  optimizer.mutable_schedule()->mutable_cosine()->set_final_factor(0.25f);
  // Eight steps of cosine. At three quarters of the way cos(pi * t / 8) is -sqrt(1/2).
  EXPECT_THAT(
      LearningRates(optimizer, 10, {0, 1, 2, 6, 8, 10, 1000}),
      ElementsAre(1, 2, 2, 1.25f, static_cast<float>(0.5 + 0.75 * (1 - std::sqrt(0.5))),
                  0.5f, 0.5f));
  // The last step of the run is still on its way.
  EXPECT_GT(StepConstantsAt(optimizer, 10, 9).learning_rate, 0.5f);
  for (int64_t step = 2; step < 10; ++step) {
    EXPECT_GT(StepConstantsAt(optimizer, 10, step).learning_rate,
              StepConstantsAt(optimizer, 10, step + 1).learning_rate);
  }
}

TEST(ScheduleTest, CosineOfItsOwnLengthStaysAtItsEnd) {
  Optimizer optimizer = SgdOf(1);
  optimizer.mutable_schedule()->mutable_cosine()->set_steps(4);
  EXPECT_THAT(LearningRates(optimizer, 100, {0, 2, 4, 5, 99}),
              ElementsAre(1, 0.5f, 0, 0, 0));
}

TEST(ScheduleTest, ARunMayEndInItsWarmUp) {
  Optimizer optimizer = SgdOf(1);
  optimizer.mutable_schedule()->set_warmup_steps(8);
  optimizer.mutable_schedule()->mutable_cosine();
  EXPECT_THAT(LearningRates(optimizer, 4, {0, 3, 7, 8}), ElementsAre(0.125f, 0.5f, 1, 0));
}

TEST(ScheduleTest, StepDecayMultipliesAtEveryMultiple) {
  Optimizer optimizer = SgdOf(1);
  optimizer.mutable_schedule()->set_warmup_steps(1);
  optimizer.mutable_schedule()->mutable_step_decay()->set_every(3);
  optimizer.mutable_schedule()->mutable_step_decay()->set_factor(0.5f);
  EXPECT_THAT(LearningRates(optimizer, 100, {0, 1, 3, 4, 6, 7, 31}),
              ElementsAre(1, 1, 1, 0.5f, 0.5f, 0.25f, 1.0f / 1024));
}

TEST(ScheduleTest, AdamsConstantsCorrectTheBiasOfItsMeans) {
  Optimizer optimizer;
  Adam* const adam = optimizer.mutable_adam();
  adam->set_learning_rate(0.5f);
  adam->set_beta1(0.5f);
  adam->set_beta2(0.75f);
  EXPECT_EQ(
      StepConstantsAt(optimizer, 10, 0),
      (StepConstants{.learning_rate = 0.5f, .adam_step_size = 1, .adam_root_scale = 2}));
  // 1 - 0.5^2 and 1 - 0.75^2, each result rounded once.
  EXPECT_EQ(
      StepConstantsAt(optimizer, 10, 1),
      (StepConstants{.learning_rate = 0.5f,
                     .adam_step_size = static_cast<float>(0.5 / 0.75),
                     .adam_root_scale = static_cast<float>(1 / std::sqrt(0.4375))}));
  EXPECT_EQ(StepConstantsAt(optimizer, 1000, 999),
            (StepConstants{
                .learning_rate = 0.5f, .adam_step_size = 0.5f, .adam_root_scale = 1}));
  // The schedule scales the step, not the correction.
  optimizer.mutable_schedule()->set_warmup_steps(4);
  EXPECT_EQ(StepConstantsAt(optimizer, 10, 0),
            (StepConstants{
                .learning_rate = 0.125f, .adam_step_size = 0.25f, .adam_root_scale = 2}));
  Optimizer adamw;
  *adamw.mutable_adamw() = *adam;
  *adamw.mutable_schedule() = optimizer.schedule();
  EXPECT_EQ(StepConstantsAt(adamw, 10, 1), StepConstantsAt(optimizer, 10, 1));
}

TEST(ScheduleTest, WithoutMomentsThereIsNothingToCorrect) {
  EXPECT_EQ(StepConstantsAt(SgdOf(0.5f), 10, 3), StepConstants{.learning_rate = 0.5f});
}

}  // namespace
}  // namespace psring
