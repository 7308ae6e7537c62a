#include "experiments/contributions.h"

#include "gmock/gmock.h"
#include "gtest/gtest.h"

namespace psring {
namespace {

using testing::ElementsAre;
using testing::IsEmpty;

// Three slots: worker 1 was late in two of them, and too stale in the third.
TEST(ContributionsTest, AreCountedInWholeGradients) {
  ArmRecords records;
  for (const int slot : {0, 1, 2}) {
    records.slots[slot].workers[0] = {.made = 10, .steps = 10};
    records.slots[slot].workers[1] = {.made = 4, .steps = 4, .late = slot > 0};
  }
  records.slots[0].workers[1].stale = 1;
  records.slots[2].workers[0].clock_lag_max = 5;
  const ContributionSummary summary = SummarizeContributions(records, 3, 3);
  ASSERT_EQ(summary.workers.size(), 3);
  EXPECT_DOUBLE_EQ(summary.workers[0].made, 10);
  EXPECT_DOUBLE_EQ(summary.workers[0].applied, 10);
  EXPECT_DOUBLE_EQ(summary.workers[1].made, 4);
  EXPECT_DOUBLE_EQ(summary.workers[1].applied, 3);
  EXPECT_DOUBLE_EQ(summary.workers[1].late, 2.0 / 3);
  EXPECT_DOUBLE_EQ(summary.workers[1].stale, 1.0 / 3);
  EXPECT_DOUBLE_EQ(summary.workers[2].made, 0);
  EXPECT_DOUBLE_EQ(summary.late, 2.0 / 3);
  EXPECT_DOUBLE_EQ(summary.stale, 1.0 / 3);
  EXPECT_EQ(summary.clock_lag_max, 5);
}

TEST(ContributionsTest, StalenessOfWorkersAndOfAll) {
  ArmRecords records;
  records.staleness[0] = {{0, {.count = 1}}, {2, {.count = 3}}};
  records.staleness[1] = {{5, {.count = 2}}};
  const ContributionSummary summary = SummarizeContributions(records, 2, 1);
  EXPECT_THAT(summary.staleness.histogram, ElementsAre(1, 0, 3, 0, 0, 2));
  EXPECT_DOUBLE_EQ(summary.staleness.mean, 16.0 / 6);
  EXPECT_EQ(summary.staleness.max, 5);
  EXPECT_DOUBLE_EQ(summary.workers[0].staleness_mean, 1.5);
  EXPECT_EQ(summary.workers[0].staleness_max, 2);
  EXPECT_DOUBLE_EQ(summary.workers[1].staleness_mean, 5);
}

TEST(ContributionsTest, WithoutServersThereAreNone) {
  const ContributionSummary summary = SummarizeContributions(ArmRecords(), 2, 0);
  EXPECT_THAT(summary.workers, IsEmpty());
  EXPECT_THAT(summary.staleness.histogram, IsEmpty());
  EXPECT_EQ(summary.staleness.mean, 0);
}

TEST(ContributionsTest, StalenessOfSeveralRunsAddsUp) {
  Staleness sum = {.mean = 0, .max = 0, .histogram = {2}};
  Add({.mean = 1, .max = 2, .histogram = {1, 0, 1}}, &sum);
  Add({.mean = 1, .max = 1, .histogram = {0, 4}}, &sum);
  EXPECT_THAT(sum.histogram, ElementsAre(3, 4, 1));
  EXPECT_DOUBLE_EQ(sum.mean, 6.0 / 8);
  EXPECT_EQ(sum.max, 2);
}

}  // namespace
}  // namespace psring
