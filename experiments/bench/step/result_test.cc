#include "experiments/bench/step/result.h"

#include <optional>
#include <vector>

#include "common/status_matchers.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"

namespace psring {
namespace {

using testing::ElementsAre;
using testing::Field;

StepTiming Step(int64_t total_ms, std::optional<int64_t> exposed_ms = 1) {
  return {
      .total_ns = total_ms * 1'000'000,
      .forward_ns = 2'000'000,
      .backward_ns = 3'000'000,
      .exposed_ns = exposed_ms ? std::optional(*exposed_ms * 1'000'000) : std::nullopt,
      .optimizer_ns = 500'000};
}

TEST(StepResultTest, RecordsBecomeSteps) {
  ArmRecords records;
  records.steps.resize(2);
  StepRecord& record = records.steps[1].emplace_back();
  record.set_total_ns(9);
  record.set_forward_ns(1);
  record.set_backward_ns(2);
  record.set_exposed_ns(3);
  record.set_optimizer_ns(4);
  record.set_loss(0.5);
  const std::vector<RankSteps> ranks = RankStepsOf(records);
  ASSERT_EQ(ranks.size(), 2);
  EXPECT_TRUE(ranks[0].steps.empty());
  ASSERT_EQ(ranks[1].steps.size(), 1);
  EXPECT_EQ(ranks[1].steps[0].total_ns, 9);
  EXPECT_EQ(ranks[1].steps[0].forward_ns, 1);
  EXPECT_EQ(ranks[1].steps[0].backward_ns, 2);
  EXPECT_EQ(ranks[1].steps[0].exposed_ns, 3);
  EXPECT_EQ(ranks[1].steps[0].optimizer_ns, 4);
  EXPECT_THAT(ranks[1].losses, ElementsAre(0.5));
}

TEST(StepResultTest, ARoundIsTheSlowestRankOfEachTimedStep) {
  const std::vector<RankSteps> ranks = {
      {.steps = {Step(90), Step(10), Step(30), Step(90)}, .losses = {4, 3, 1, 0}},
      {.steps = {Step(90), Step(20), Step(25), Step(90)}, .losses = {6, 3, 2, 0}}};
  ASSERT_OK_AND_ASSIGN(const StepRound round, RoundOf(ranks, 1, 2));
  EXPECT_THAT(round.steps, ElementsAre(Field(&StepTiming::total_ns, 20'000'000),
                                       Field(&StepTiming::total_ns, 30'000'000)));
  EXPECT_EQ(round.first_loss, 5);
  EXPECT_EQ(round.last_loss, 1.5);
}

TEST(StepResultTest, ARankWithTooFewStepsIsNamed) {
  const RankSteps two = {.steps = {Step(1), Step(1)}, .losses = {1, 1}};
  const RankSteps one = {.steps = {Step(1)}, .losses = {1}};
  EXPECT_THAT(RoundOf({two, one}, 1, 1).status(),
              StatusIs(absl::StatusCode::kInternal, "rank 1 has reported 1 steps of 2"));
  EXPECT_THAT(RoundOf({}, 1, 1).status(),
              StatusIs(absl::StatusCode::kInternal, "no rank has reported steps"));
}

TEST(StepResultTest, RowsAreOfAllRoundsAndRatiosOfPairs) {
  const std::vector<StepContestant> contestants = {
      {"psring", "ring", "tcp", 2, 1024},
      {"psring", "local", "", 1, std::nullopt},
      {"pytorch", "ddp", "tcp", 2, 1024},
      {"pytorch", "local", "", 1, std::nullopt}};
  // Of the peers' quotients, 3, 2 and 8, the one in the middle; that of the medians of
  // all would be another.
  const std::vector<std::vector<StepRound>> rounds = {
      {{{Step(10), Step(12), Step(40)}, 3, 2}, {{Step(20)}, 3, 2}, {{Step(10)}, 3, 1}},
      {{{Step(8)}, 1, 1}, {{Step(8)}, 1, 1}, {{Step(8)}, 1, 1}},
      {{{Step(36, std::nullopt)}, 9, 9},
       {{Step(40, std::nullopt)}, 9, 9},
       {{Step(80, std::nullopt)}, 9, 9}},
      {{{Step(4)}, 1, 1}, {{Step(16)}, 1, 1}, {{Step(12)}, 1, 1}}};
  const std::vector<StepRow> rows = MakeStepRows(64, contestants, rounds);
  ASSERT_EQ(rows.size(), 4);
  const StepRow& ring = rows[0];  // 10, 10, 12, 20, 40 ms
  EXPECT_EQ(ring.min_ms, 10);
  EXPECT_EQ(ring.median_ms, 12);
  EXPECT_EQ(ring.p99_ms, 40);
  EXPECT_NEAR(ring.samples_per_second, 2 * 64 / 0.012, 1e-6);
  EXPECT_EQ(ring.forward_ms, 2);
  EXPECT_EQ(ring.backward_ms, 3);
  EXPECT_EQ(ring.exposed_ms, 1);
  EXPECT_EQ(ring.optimizer_ms, 0.5);
  EXPECT_NEAR(ring.other_ms, 92 / 5.0 - 6.5, 1e-9);
  EXPECT_EQ(ring.first_loss, 3);
  EXPECT_EQ(ring.last_loss, 1);
  EXPECT_EQ(ring.ratio, std::nullopt);
  EXPECT_NEAR(rows[1].samples_per_second, 64 / 0.008, 1e-6);
  EXPECT_EQ(rows[1].ratio, std::nullopt);
  EXPECT_EQ(rows[2].ratio, 3);
  EXPECT_EQ(rows[2].exposed_ms, std::nullopt);
  EXPECT_EQ(rows[3].ratio, 1.5);
}

}  // namespace
}  // namespace psring
