#include "common/liveness.h"

#include <string>

#include "common/errors.h"
#include "common/status_matchers.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"

namespace psring {
namespace {

using absl::Seconds;
using absl::StatusCode;
using testing::AllOf;
using testing::ElementsAre;
using testing::HasSubstr;
using testing::IsEmpty;
using testing::Not;

constexpr char kA[] = "worker 0 (process 10 on a)";
constexpr char kB[] = "worker 1 (process 11 on b)";

Activity At(uint64_t progress, const std::string& awaiting = "") {
  Activity activity;
  activity.set_under_way(true);
  activity.set_progress(progress);
  activity.set_step(static_cast<int64_t>(progress));
  activity.set_phase(awaiting.empty() ? "forward" : "waiting");
  activity.set_awaiting(awaiting);
  return activity;
}

// Time passes in half seconds, so that the judge never misses a check.
class LivenessTest : public testing::Test {
 protected:
  LivenessTest() {
    judge_.Join(kA, now_);
    judge_.Join(kB, now_);
  }

  // Until the first error, or for so long. `a` and `b` are heard at each half second
  // where given.
  LivenessJudge::Findings Pass(absl::Duration time, const Activity* a,
                               const Activity* b) {
    LivenessJudge::Findings all;
    for (const absl::Duration end = now_ + time; now_ < end;) {
      now_ += absl::Milliseconds(500);
      if (a != nullptr) judge_.Hear(kA, *a, now_);
      if (b != nullptr) judge_.Hear(kB, *b, now_);
      LivenessJudge::Findings found = judge_.Check(now_);
      all.warnings.insert(all.warnings.end(), found.warnings.begin(),
                          found.warnings.end());
      all.error = found.error;
      if (!all.error.ok()) break;
    }
    return all;
  }

  LivenessJudge judge_{LivenessSettings()};
  absl::Duration now_ = Seconds(1000);
};

TEST_F(LivenessTest, WhoIsHeardAndGetsOnIsFine) {
  for (uint64_t progress = 0; progress < 100; ++progress) {
    const Activity a = At(progress), b = At(progress + 7);
    const auto found = Pass(Seconds(5), &a, &b);
    ASSERT_OK(found.error);
    ASSERT_THAT(found.warnings, IsEmpty());
  }
}

TEST_F(LivenessTest, SilenceIsDeathAndSaysWhereItWasLastSeen) {
  const Activity a = At(1), b = At(12, "bucket 3 of left neighbour worker 0");
  ASSERT_OK(Pass(Seconds(1), &a, &b).error);
  ASSERT_OK(Pass(Seconds(9), &a, nullptr).error);
  const auto found = Pass(Seconds(2), &a, nullptr);
  EXPECT_THAT(found.error,
              StatusIs(StatusCode::kUnavailable,
                       AllOf(HasSubstr("worker 1 (process 11 on b) is dead"),
                             HasSubstr("for 10s"),
                             HasSubstr("step 12, waiting for bucket 3 of left neighbour "
                                       "worker 0"))));
  EXPECT_EQ(ExitCodeOf(found.error), ExitCode::kPeerLost);
}

TEST_F(LivenessTest, AStallIsWarnedOfOnceThenNamedWithWhomItHoldsUp) {
  const Activity a = At(12, "bucket 0 of left neighbour worker 1"), b = At(12);
  auto found = Pass(Seconds(16), &a, &b);
  ASSERT_OK(found.error);
  EXPECT_THAT(found.warnings, ElementsAre(AllOf(HasSubstr("worker 1"),
                                                HasSubstr("no progress for 15s"))));
  found = Pass(Seconds(20), &a, &b);
  EXPECT_THAT(found.warnings, IsEmpty());
  EXPECT_THAT(
      found.error,
      StatusIs(
          StatusCode::kUnavailable,
          AllOf(HasSubstr("worker 1 (process 11 on b) (step 12, forward) is stalled: "
                          "no progress for 30s"),
                HasSubstr("held up: worker 0"), Not(HasSubstr("dead")))));
  EXPECT_EQ(ExitCodeOf(found.error), ExitCode::kPeerLost);
}

TEST_F(LivenessTest, TheOneWaitedForIsToBlameThoughItGotStuckLater) {
  const Activity a = At(12, "bucket 0 of left neighbour worker 1"), before = At(11),
                 b = At(12);
  ASSERT_OK(Pass(Seconds(3), &a, &before).error);
  EXPECT_THAT(Pass(Seconds(31), &a, &b).error,
              StatusIs(StatusCode::kUnavailable,
                       HasSubstr("worker 1 (process 11 on b) (step 12, forward) is")));
}

TEST_F(LivenessTest, WhereEveryoneWaitsAllAreNamed) {
  const Activity a = At(1, "worker 1"), b = At(1, "worker 0");
  EXPECT_THAT(Pass(Seconds(40), &a, &b).error,
              StatusIs(StatusCode::kUnavailable,
                       AllOf(HasSubstr("worker 0"), HasSubstr("worker 1"),
                             HasSubstr("are stalled"))));
}

TEST_F(LivenessTest, WhoeverWaitsIsFineWhileAnotherGetsOn) {
  const Activity waiting = At(1, "slot 0 of server 0");
  for (uint64_t progress = 1; progress < 5; ++progress) {
    const Activity b = At(progress);
    EXPECT_OK(Pass(Seconds(29), &waiting, &b).error);
  }
  const Activity b = At(4, "slot 0 of server 0");
  EXPECT_FALSE(Pass(Seconds(31), &waiting, &b).error.ok());
}

TEST_F(LivenessTest, ProgressStartsTheClockAgain) {
  for (uint64_t progress = 0; progress < 5; ++progress) {
    const Activity a = At(progress), b = At(progress);
    EXPECT_OK(Pass(Seconds(29), &a, &b).error);
  }
}

TEST_F(LivenessTest, OutsideTrainingNobodyStalls) {
  Activity idle;
  idle.set_phase("loading data");
  EXPECT_OK(Pass(Seconds(100), &idle, &idle).error);
}

TEST_F(LivenessTest, WhoHasLeftIsJudgedNoMore) {
  const Activity a = At(1);
  judge_.Leave(kB);
  EXPECT_OK(Pass(Seconds(20), &a, nullptr).error);
  judge_.Hear(kB, a, now_);  // Was still on the way.
  EXPECT_OK(Pass(Seconds(9), &a, nullptr).error);
}

TEST_F(LivenessTest, TheObserversOwnAbsenceCountsAgainstNobody) {
  const Activity a = At(1), b = At(1);
  ASSERT_OK(Pass(Seconds(1), &a, &b).error);
  now_ += Seconds(100);  // Nobody checked: we were stopped ourselves.
  EXPECT_OK(judge_.Check(now_).error);
  EXPECT_OK(Pass(Seconds(9), nullptr, nullptr).error);
  EXPECT_FALSE(Pass(Seconds(2), nullptr, nullptr).error.ok());
}

TEST(SettingsOfTest, LeftOutMeansDefault) {
  Liveness liveness;
  liveness.set_stall_seconds(2.5);
  const LivenessSettings settings = SettingsOf(liveness);
  EXPECT_EQ(settings.heartbeat, Seconds(1));
  EXPECT_EQ(settings.dead, Seconds(10));
  EXPECT_EQ(settings.stall, Seconds(2.5));
}

}  // namespace
}  // namespace psring
