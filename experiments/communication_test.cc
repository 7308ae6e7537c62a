#include "experiments/communication.h"

#include <array>
#include <vector>

#include "gmock/gmock.h"
#include "gtest/gtest.h"

namespace psring {
namespace {

using testing::DoubleEq;
using testing::ElementsAre;
using testing::Optional;

constexpr int64_t kMs = 1'000'000;

// Milliseconds: when it was ready, launched and done.
using Bucket = std::array<int64_t, 3>;

// Backward takes from 100 to 200 ms.
StepRecord MakeStep(const std::vector<Bucket>& buckets) {
  StepRecord step;
  step.set_forward_ns(100 * kMs);
  step.set_backward_ns(100 * kMs);
  for (const auto& [ready, launched, done] : buckets) {
    BucketTimes& times = *step.add_buckets();
    times.set_ready_ns(ready * kMs);
    times.set_launched_ns(launched * kMs);
    times.set_done_ns(done * kMs);
    times.set_working_ns(3 * kMs);
  }
  return step;
}

Communication FiguresOf(const std::vector<std::vector<StepRecord>>& steps,
                        bool awaits_all = true, const AlignedClocks& clocks = {}) {
  CommunicationMeter meter(awaits_all, &clocks);
  for (const std::vector<StepRecord>& step : steps) {
    std::vector<const StepRecord*> ranks;
    for (const StepRecord& record : step) ranks.push_back(&record);
    meter.Add(ranks);
  }
  return meter.Figures();
}

TEST(CommunicationTest, OverlapIsWhatBackwardHides) {
  // 60 ms of 80, and all of it after backward; together 150 to 230, 50 ms hidden.
  const Communication figures =
      FiguresOf({{MakeStep({{130, 140, 220}, {200, 200, 230}})}});
  ASSERT_EQ(figures.buckets.size(), 2);
  EXPECT_THAT(figures.buckets[0].overlap_ratio, Optional(DoubleEq(0.75)));
  EXPECT_THAT(figures.buckets[1].overlap_ratio, Optional(DoubleEq(0)));
  EXPECT_THAT(figures.overlap_ratio, Optional(DoubleEq(60.0 / 90)));
  EXPECT_DOUBLE_EQ(figures.first_launch, 0.4);
  EXPECT_DOUBLE_EQ(figures.buckets[1].launched, 1);
  EXPECT_DOUBLE_EQ(figures.buckets[0].milliseconds, 80);
  EXPECT_DOUBLE_EQ(figures.buckets[0].working_ms, 3);
  EXPECT_EQ(figures.arrival_skew, std::nullopt);  // Of one worker.
}

TEST(CommunicationTest, FiguresAreMeansOverRanksAndSteps) {
  const Communication figures =
      FiguresOf({{MakeStep({{110, 110, 120}}), MakeStep({{120, 120, 150}})},
                 {MakeStep({{130, 130, 180}}), MakeStep({{140, 140, 210}})}});
  EXPECT_DOUBLE_EQ(figures.first_launch, 0.25);
  EXPECT_DOUBLE_EQ(figures.buckets[0].milliseconds, (10 + 30 + 50 + 70) / 4.0);
  EXPECT_THAT(figures.overlap_ratio, Optional(DoubleEq(150.0 / 160)));
}

TEST(CommunicationTest, WithoutCommunicationThereIsNoOverlap) {
  const Communication figures = FiguresOf({{MakeStep({{150, 150, 150}})}});
  EXPECT_EQ(figures.overlap_ratio, std::nullopt);
  EXPECT_EQ(figures.buckets[0].overlap_ratio, std::nullopt);
  EXPECT_TRUE(FiguresOf({}).buckets.empty());
}

// Worker 2's clock is 1 s behind, so that what it calls 120 is 1120.
TEST(CommunicationTest, ArrivalSkewIsTheLatestMinusEach) {
  AlignedClocks clocks;
  ClockRecord behind;
  behind.set_offset_ns(1000 * kMs);
  behind.set_error_ns(kMs / 2);
  clocks.Add(2, behind);
  const Communication figures =
      FiguresOf({{MakeStep({{1100, 1100, 1200}}), MakeStep({{1110, 1110, 1200}}),
                  MakeStep({{120, 120, 200}})},
                 {MakeStep({{1150, 1150, 1200}}), MakeStep({{1110, 1110, 1200}}),
                  MakeStep({{150, 150, 200}})},
                 {MakeStep({{1100, 1100, 1200}}), MakeStep({{1100, 1100, 1200}}),
                  MakeStep({{160, 160, 200}})}},
                true, clocks);
  ASSERT_TRUE(figures.arrival_skew.has_value());
  const ArrivalSkew& skew = *figures.arrival_skew;
  EXPECT_THAT(skew.worker_ms, ElementsAre(DoubleEq((20 + 0 + 60) / 3.0),
                                          DoubleEq((10 + 40 + 60) / 3.0), DoubleEq(0)));
  EXPECT_DOUBLE_EQ(skew.mean_ms, 190.0 / 9);
  EXPECT_DOUBLE_EQ(figures.buckets[0].arrival_skew_ms, 190.0 / 9);
  EXPECT_DOUBLE_EQ(skew.max_ms, 60);
  EXPECT_EQ(skew.last, 2);
  EXPECT_DOUBLE_EQ(skew.last_share, 2.0 / 3);  // Once worker 0 is as late.
  EXPECT_DOUBLE_EQ(skew.error_ms, 0.5);
}

TEST(CommunicationTest, SkewIsOfWorkersThatAwaitEachOther) {
  const std::vector<StepRecord> step = {MakeStep({{110, 110, 120}}),
                                        MakeStep({{120, 120, 150}})};
  EXPECT_EQ(FiguresOf({step}, /*awaits_all=*/false).arrival_skew, std::nullopt);
  const AlignedClocks clocks;
  CommunicationMeter meter(true, &clocks);
  meter.Add(std::vector<const StepRecord*>{step.data(), nullptr});
  EXPECT_EQ(meter.Figures().arrival_skew, std::nullopt);
  EXPECT_DOUBLE_EQ(meter.Figures().first_launch, 0.1);
}

}  // namespace
}  // namespace psring
