#include "worker/pace.h"

#include <set>
#include <string>

#include "common/status_matchers.h"
#include "google/protobuf/text_format.h"
#include "gtest/gtest.h"

namespace psring {
namespace {

using google::protobuf::TextFormat;

class FakeTime final : public TimeSource {
 public:
  absl::Duration Elapsed() const override { return now; }
  absl::Duration now = absl::Seconds(100);
};

absl::Status NeverWait(absl::Duration) { return absl::InternalError("waited"); }

// Tensors of 10, 30 and 60 elements.
ParameterLayout Layout() {
  ParameterLayout layout;
  for (const int64_t count : {10, 30, 60}) layout.Add("tensor", {count});
  return layout;
}

class PaceTest : public testing::Test {
 protected:
  // Waits are too long by `overshoot`.
  Pace Make(PaceSettings settings, absl::Duration overshoot = absl::ZeroDuration()) {
    return Pace(std::move(settings), &time_, [this, overshoot](absl::Duration missing) {
      time_.now += missing + overshoot;
      return absl::OkStatus();
    });
  }
  static PaceSettings Of(const std::string& text, int rank = 0) {
    Experiment experiment;
    EXPECT_TRUE(TextFormat::ParseFromString(text, &experiment));
    return PaceOf(experiment, rank, Layout());
  }
  // Since the clock's start.
  absl::Duration Now() const { return time_.now - absl::Seconds(100); }

  FakeTime time_;
};

TEST_F(PaceTest, AFactorStretchesWhatWasComputed) {
  Pace pace = Make({.factor = 3});
  pace.Start(0);
  time_.now += absl::Seconds(2);
  ASSERT_OK(pace.EndForward());
  EXPECT_EQ(Now(), absl::Seconds(6));
  time_.now += absl::Seconds(1);
  ASSERT_OK(pace.BeforeReady(1));
  EXPECT_EQ(Now(), absl::Seconds(9));
  ASSERT_OK(pace.BeforeReady(0));
  EXPECT_EQ(Now(), absl::Seconds(9)) << "nothing was computed in between";
  EXPECT_FALSE(pace.late());
}

// Of a step of 300 ms two passes take 150 each, from where each starts.
TEST_F(PaceTest, PassesShareTheStepsTime) {
  Pace pace = Make(Of("compute { padded { step_ms: 300 } }"));
  for (const int pass : {0, 1}) {
    const absl::Duration start = pass * absl::Milliseconds(170);
    pace.Start(/*step=*/0, /*passes=*/2);
    time_.now += absl::Milliseconds(7);
    ASSERT_OK(pace.EndForward());
    EXPECT_EQ(Now(), start + absl::Milliseconds(50));
    ASSERT_OK(pace.BeforeReady(2));
    EXPECT_EQ(Now(), start + absl::Milliseconds(110));
    ASSERT_OK(pace.BeforeReady(0));
    EXPECT_EQ(Now(), start + absl::Milliseconds(150));
    EXPECT_FALSE(pace.late());
    time_.now += absl::Milliseconds(20);  // The next batch.
  }
  pace.Start(0, 2);
  time_.now += absl::Milliseconds(152);
  ASSERT_OK(pace.BeforeReady(0));
  EXPECT_TRUE(pace.late());
}

TEST_F(PaceTest, AFactorStretchesEachPassByWhatItComputed) {
  Pace pace = Make({.factor = 3});
  for (const int pass : {0, 1}) {
    pace.Start(0, 2);
    time_.now += absl::Seconds(2);
    ASSERT_OK(pace.BeforeReady(0));
    EXPECT_EQ(Now(), (pass + 1) * absl::Seconds(6));
  }
}

TEST_F(PaceTest, AWaitThatTookTooLongCountsAgainstTheNext) {
  Pace pace = Make({.factor = 2}, absl::Seconds(1));
  pace.Start(0);
  time_.now += absl::Seconds(2);
  ASSERT_OK(pace.EndForward());  // To 4, and a second too long.
  time_.now += absl::Seconds(3);
  ASSERT_OK(pace.BeforeReady(0));  // 5 s of computing: to 10, and a second too long.
  EXPECT_EQ(Now(), absl::Seconds(11));
}

TEST_F(PaceTest, RealComputingNeverWaits) {
  Pace pace(Of("compute { real {} }"), &time_, NeverWait);
  pace.Start(0);
  time_.now += absl::Seconds(2);
  EXPECT_OK(pace.EndForward());
  EXPECT_OK(pace.BeforeReady(0));
  EXPECT_FALSE(pace.late());
}

TEST_F(PaceTest, APaddedStepIsAThirdForwardAndThenGoesBySize) {
  Pace pace = Make(Of("compute { padded { step_ms: 300 } }"));
  pace.Start(0);
  time_.now += absl::Milliseconds(7);
  ASSERT_OK(pace.EndForward());
  EXPECT_EQ(Now(), absl::Milliseconds(100));
  time_.now += absl::Milliseconds(9);
  ASSERT_OK(pace.BeforeReady(2));
  EXPECT_EQ(Now(), absl::Milliseconds(220));
  ASSERT_OK(pace.BeforeReady(1));
  EXPECT_EQ(Now(), absl::Milliseconds(280));
  ASSERT_OK(pace.BeforeReady(0));
  EXPECT_EQ(Now(), absl::Milliseconds(300));
  EXPECT_FALSE(pace.late());
}

TEST_F(PaceTest, APointThatIsPassedAlreadyIsNotWaitedFor) {
  Pace pace = Make(Of("compute { padded { step_ms: 300 } }"));
  pace.Start(0);
  time_.now += absl::Milliseconds(250);
  ASSERT_OK(pace.EndForward());
  ASSERT_OK(pace.BeforeReady(2));
  EXPECT_EQ(Now(), absl::Milliseconds(250));
  ASSERT_OK(pace.BeforeReady(1));
  ASSERT_OK(pace.BeforeReady(0));
  EXPECT_EQ(Now(), absl::Milliseconds(300));
  EXPECT_FALSE(pace.late()) << "it has caught up";
}

TEST_F(PaceTest, AStepIsLateBeyondTheTolerance) {
  Pace pace = Make(Of("compute { padded { step_ms: 300 } }"), Pace::kTolerance);
  pace.Start(0);
  ASSERT_OK(pace.BeforeReady(0));
  EXPECT_FALSE(pace.late()) << "as late as a wait may be";
  pace.Start(1);
  time_.now += absl::Milliseconds(301) + absl::Nanoseconds(1);
  ASSERT_OK(pace.BeforeReady(0));
  EXPECT_TRUE(pace.late());
  pace.Start(2);
  EXPECT_FALSE(pace.late());
}

TEST_F(PaceTest, FactorsOfARankMultiply) {
  const std::string text =
      "compute { emulated { forward_ms: 10 backward_ms: 100 "
      "                     rank_factor { rank: 1 factor: 0.5 } } } "
      "inject { slow_worker { rank: 1 factor: 6 } slow_worker { rank: 2 factor: 2 } }";
  for (const auto& [rank, factor] : {std::pair(0, 1), std::pair(1, 3), std::pair(2, 2)}) {
    Pace pace = Make(Of(text, rank));
    const absl::Duration before = Now();
    pace.Start(0);
    ASSERT_OK(pace.EndForward());
    EXPECT_EQ(Now() - before, absl::Milliseconds(10) * factor);
    ASSERT_OK(pace.BeforeReady(2));
    EXPECT_EQ(Now() - before, absl::Milliseconds(70) * factor);
    ASSERT_OK(pace.BeforeReady(0));
    EXPECT_EQ(Now() - before, absl::Milliseconds(110) * factor);
  }
}

TEST_F(PaceTest, JitterIsOfTheSeedTheRankAndTheStepAlone) {
  const std::string text =
      "compute { emulated { forward_ms: 60 backward_ms: 40 jitter: 0.25 } } ";
  const auto step_ms = [&](const std::string& more, int rank, int64_t step) {
    Pace pace = Make(Of(text + more, rank));
    const absl::Duration before = Now();
    pace.Start(step);
    EXPECT_OK(pace.BeforeReady(0));
    return absl::ToDoubleMilliseconds(Now() - before);
  };
  EXPECT_EQ(step_ms("", 1, 7), step_ms("", 1, 7));
  std::set<double> different = {step_ms("training { seed: 9 }", 0, 0)};
  double sum = 0;
  for (const int rank : {0, 1}) {
    for (int step = 0; step < 500; ++step) {
      const double ms = step_ms("", rank, step);
      EXPECT_GE(ms, 75);
      EXPECT_LT(ms, 125);
      sum += ms;
      different.insert(ms);
    }
  }
  EXPECT_EQ(different.size(), 1001);
  // The mean of 1000 has a deviation of 50 / sqrt(12000) = 0.46.
  EXPECT_NEAR(sum / 1000, 100, 2.3);
}

TEST_F(PaceTest, AnAbortEndsAWait) {
  Pace pace(Of("compute { padded { step_ms: 300 } }"), &time_,
            [](absl::Duration) { return absl::CancelledError("over"); });
  pace.Start(0);
  EXPECT_THAT(pace.EndForward(), StatusIs(absl::StatusCode::kCancelled, "over"));
  EXPECT_THAT(pace.BeforeReady(2), StatusIs(absl::StatusCode::kCancelled, "over"));
}

}  // namespace
}  // namespace psring
