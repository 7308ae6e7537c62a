#include "experiments/arm_runs.h"

#include <limits>
#include <string>
#include <vector>

#include "gmock/gmock.h"
#include "gtest/gtest.h"

namespace psring {
namespace {

using testing::ElementsAre;
using testing::IsNan;
using testing::Pair;

constexpr double kNan = std::numeric_limits<double>::quiet_NaN();
constexpr double kInfinity = std::numeric_limits<double>::infinity();

ArmResult MakeRun(const std::string& name, uint64_t seed) {
  ArmResult run;
  run.name = name;
  run.seed = seed;
  return run;
}

TEST(ArmRunsTest, RunsAreGroupedInOrder) {
  const std::vector<ArmRuns> arms =
      GroupByArm({MakeRun("b", 1), MakeRun("a", 1), MakeRun("b", 2), MakeRun("b", 3)});
  ASSERT_EQ(arms.size(), 2);
  EXPECT_EQ(arms[0].first().name, "b");
  EXPECT_EQ(arms[0].runs.size(), 3);
  EXPECT_EQ(arms[0].runs[2].seed, 3);
  EXPECT_EQ(arms[1].first().name, "a");
}

TEST(ArmRunsTest, MedianOfOddAndEvenNumbers) {
  const Spread odd = ArmRuns::SpreadOf({7, 1, 3});
  EXPECT_EQ(odd.median, 3);
  EXPECT_EQ(odd.min, 1);
  EXPECT_EQ(odd.max, 7);
  EXPECT_EQ(ArmRuns::SpreadOf({7, 1, 4, 3}).median, 3.5);
  EXPECT_EQ(ArmRuns::SpreadOf({7}).median, 7);
}

TEST(ArmRunsTest, WhatIsNotANumberIsLeftOut) {
  EXPECT_EQ(ArmRuns::SpreadOf({kNan, 2, kNan}).min, 2);
  EXPECT_THAT(ArmRuns::SpreadOf({kNan}).median, IsNan());
}

TEST(ArmRunsTest, TheWorstIsInfinite) {
  ArmRuns arm{.runs = {MakeRun("a", 1), MakeRun("a", 2), MakeRun("a", 3)}};
  arm.runs[0].final_loss = 0.5;
  arm.runs[1].final_loss = kNan;
  arm.runs[2].final_loss = 0.25;
  arm.runs[0].time_to_target_seconds = 8;
  EXPECT_EQ(arm.FinalLoss().median, 0.5);
  EXPECT_EQ(arm.FinalLoss().max, kInfinity);
  EXPECT_EQ(arm.TimeToTargetSeconds().median, kInfinity);
  EXPECT_EQ(arm.TimeToTargetSeconds().min, 8);
}

TEST(ArmRunsTest, AccuracyIsOfTheLastEvaluationWhereThereIsOne) {
  ArmRuns arm{.runs = {MakeRun("a", 1), MakeRun("a", 2)}};
  arm.runs[1].evaluations = {{.accuracy = 0.25}, {.accuracy = 0.75}};
  EXPECT_EQ(arm.Accuracy().min, 0.75);
}

TEST(ArmRunsTest, VerdictsAreCounted) {
  ArmRuns arm{.runs = {MakeRun("a", 1), MakeRun("a", 2), MakeRun("a", 3)}};
  arm.runs[0].convergence = Convergence::kReachedTarget;
  arm.runs[1].convergence = Convergence::kDiverged;
  arm.runs[2].convergence = Convergence::kReachedTarget;
  EXPECT_THAT(arm.Verdicts(), ElementsAre(Pair(Convergence::kReachedTarget, 2),
                                          Pair(Convergence::kDiverged, 1)));
}

TEST(ArmRunsTest, StalenessIsThatOfAllRuns) {
  ArmRuns arm{.runs = {MakeRun("a", 1), MakeRun("a", 2)}};
  arm.runs[0].contributions.staleness.histogram = {1};
  arm.runs[1].contributions.staleness.histogram = {0, 3};
  EXPECT_EQ(arm.AllStaleness().mean, 0.75);
}

TEST(ArmRunsTest, VoidRunsAndTheFirstOfThem) {
  ArmRuns arm = {.runs = std::vector<ArmResult>(4)};
  arm.runs[1].validity = Validity{};
  EXPECT_EQ(arm.VoidRuns(), 0);
  EXPECT_EQ(arm.Void(), nullptr);
  arm.runs[2].validity = Validity{.kind = Validity::Kind::kVoid, .cause = "a"};
  arm.runs[3].validity = Validity{.kind = Validity::Kind::kVoid, .cause = "b"};
  EXPECT_EQ(arm.VoidRuns(), 2);
  ASSERT_NE(arm.Void(), nullptr);
  EXPECT_EQ(arm.Void()->cause, "a");
}

}  // namespace
}  // namespace psring
