#include "common/contributors.h"

#include <cstdint>

#include "gtest/gtest.h"

namespace psring {
namespace {

void ExpectPlan(const EpochPlan& plan, int64_t steps, int last, int64_t left_out) {
  EXPECT_EQ(plan.steps, steps);
  EXPECT_EQ(plan.last_contributors, last);
  EXPECT_EQ(plan.left_out, left_out);
}

// 100 samples in batches of 24 are 4 and 4 left, of 32 are 3 and 4 left, of 28 are 3 and
// 16 left: of 7 for each of 4 workers, that is two parts and 2 left.
TEST(PlanEpochTest, WhatIsNoWholeBatchIsDroppedOrJoined) {
  ExpectPlan(PlanEpoch(100, 28, 4, /*join=*/false), 3, 4, 16);
  ExpectPlan(PlanEpoch(100, 28, 4, /*join=*/true), 4, 2, 2);
}

TEST(PlanEpochTest, NoStepWithoutAWholePart) {
  ExpectPlan(PlanEpoch(100, 24, 4, /*join=*/true), 4, 4, 4);
  ExpectPlan(PlanEpoch(100, 25, 1, /*join=*/true), 4, 1, 0);
  for (int64_t samples = 10; samples < 40; ++samples) {
    ExpectPlan(PlanEpoch(samples, 10, 1, /*join=*/true), samples / 10, 1, samples % 10);
  }
}

TEST(PlanEpochTest, EverySampleIsInAStepOrLeftOut) {
  for (int workers = 1; workers <= 5; ++workers) {
    for (int64_t batch = workers; batch <= 30; batch += workers) {
      for (int64_t samples = batch; samples <= 3 * batch; ++samples) {
        for (const bool join : {false, true}) {
          const EpochPlan plan = PlanEpoch(samples, batch, workers, join);
          const int64_t part = batch / workers;
          EXPECT_EQ(
              (plan.steps - 1) * batch + plan.last_contributors * part + plan.left_out,
              samples);
          EXPECT_LT(plan.left_out, join ? part : batch);
          EXPECT_GE(plan.last_contributors, 1);
          EXPECT_LE(plan.last_contributors, workers);
        }
      }
    }
  }
}

TEST(ContributorsTest, FewerInTheLastStepOfEachEpoch) {
  const Contributors contributors(4, 3, 2);
  for (const int64_t step : {0, 1, 3, 4, 6}) EXPECT_EQ(contributors.At(step), 4) << step;
  for (const int64_t step : {2, 5, 8}) EXPECT_EQ(contributors.At(step), 2) << step;
  EXPECT_EQ(contributors.StepsOf(1, 8), 8);
  EXPECT_EQ(contributors.StepsOf(2, 2), 2);
  EXPECT_EQ(contributors.StepsOf(2, 3), 2);
  EXPECT_EQ(contributors.StepsOf(3, 8), 6);
  for (int64_t step = 0; step < 5; ++step) EXPECT_EQ(Contributors(4).At(step), 4);
}

}  // namespace
}  // namespace psring
