#include "server/policies.h"

#include <limits>
#include <memory>
#include <optional>
#include <string>

#include "common/status_matchers.h"
#include "gmock/gmock.h"
#include "google/protobuf/text_format.h"
#include "gtest/gtest.h"
#include "server/worker_clocks.h"

namespace psring {
namespace {

using testing::ElementsAre;
using testing::IsEmpty;

constexpr PushAction kHold = PushAction::kHold;
constexpr PushAction kApply = PushAction::kApply;
constexpr PushAction kWait = PushAction::kWait;
constexpr PushAction kDropLate = PushAction::kDropLate;
constexpr PushAction kDropStale = PushAction::kDropStale;
constexpr PushAction kRefuse = PushAction::kRefuse;
constexpr std::nullopt_t kParked = std::nullopt;

ParameterServerMode Mode(const std::string& text) {
  ParameterServerMode mode;
  EXPECT_TRUE(google::protobuf::TextFormat::ParseFromString(text, &mode)) << text;
  return mode;
}

// One slot as the policy sees it, so that a test reads like a script: Push says what the
// policy decides and lets it take effect.
class Script {
 public:
  Script(const std::string& mode, int workers)
      : policy_(*MakePolicy(Mode(mode), workers)), clocks_(workers) {}

  // `version`: that the gradient was computed from; where it is left out, the step.
  PushAction Push(int rank, int64_t step, std::optional<int64_t> version = std::nullopt) {
    const PushAction action = policy_->OnPush(
        {.rank = rank, .step = step, .slot = 0, .version = version.value_or(step)},
        clocks_, version_);
    if (action == kRefuse) return action;
    if (!clocks_.HasPushed(rank, step)) clocks_.RecordPush(rank, step);
    if (action == kApply ||
        (action == kHold && policy_->RoundCloses(clocks_, version_))) {
      ++version_;
    }
    return action;
  }
  // Whether the round, in which there is a contribution, closes because of it.
  bool Leave(int rank) {
    clocks_.Leave(rank);
    return policy_->RoundCloses(clocks_, version_);
  }
  std::optional<int64_t> Pull(int rank, int64_t step) const {
    return policy_->OnPull({.rank = rank, .step = step, .slot = 0}, clocks_, version_);
  }
  std::vector<int> Awaited(int rank, int64_t step) const {
    return policy_->Awaited({.rank = rank, .step = step, .slot = 0}, clocks_, version_);
  }
  int64_t version() const { return version_; }

 private:
  const std::unique_ptr<const ConsistencyPolicy> policy_;
  WorkerClocks clocks_;
  int64_t version_ = 0;
};

TEST(SyncTest, ARoundClosesWithTheLastWorker) {
  Script script("sync {}", 3);
  script.Push(2, 0);
  script.Push(0, 0);
  EXPECT_EQ(script.version(), 0);
  EXPECT_EQ(script.Push(1, 0), kHold);
  EXPECT_EQ(script.version(), 1);
  script.Push(1, 1);
  script.Push(0, 1);
  EXPECT_EQ(script.version(), 1);
  script.Push(2, 1);
  EXPECT_EQ(script.version(), 2);
}

TEST(SyncTest, IsTheDefault) {
  Script script("", 2);
  script.Push(0, 0);
  EXPECT_EQ(script.version(), 0);
  script.Push(1, 0);
  EXPECT_EQ(script.version(), 1);
}

TEST(SyncTest, APushOfARoundThatHasNotBegunIsRefused) {
  Script script("sync {}", 2);
  EXPECT_EQ(script.Push(0, 1), kRefuse);
  EXPECT_EQ(script.Push(0, 0), kHold);
  EXPECT_EQ(script.Push(0, 1), kRefuse);
  script.Push(1, 0);
  EXPECT_EQ(script.Push(0, 1), kHold);
}

TEST(SyncTest, APullWaitsForItsRoundAndForThoseWhoHaveNotPushed) {
  Script script("sync {}", 3);
  EXPECT_EQ(script.Pull(0, 0), 0);
  EXPECT_EQ(script.Pull(0, 1), kParked);
  script.Push(1, 0);
  EXPECT_THAT(script.Awaited(1, 1), ElementsAre(0, 2));
  script.Push(0, 0);
  script.Push(2, 0);
  EXPECT_EQ(script.Pull(1, 1), 1);
  EXPECT_EQ(script.Pull(1, 2), kParked);
}

TEST(SyncTest, AWorkerThatHasLeftIsNotWaitedFor) {
  Script script("sync {}", 3);
  script.Push(0, 0);
  EXPECT_FALSE(script.Leave(1));
  EXPECT_THAT(script.Awaited(0, 1), ElementsAre(2));
  EXPECT_TRUE(script.Leave(2));
}

TEST(SyncTest, TheContributionOfAWorkerThatHasLeftDoesNotStandInForAnother) {
  Script script("sync {}", 3);
  script.Push(0, 0);
  EXPECT_FALSE(script.Leave(0));
  script.Push(1, 0);
  EXPECT_EQ(script.version(), 0);
  script.Push(2, 0);
  EXPECT_EQ(script.version(), 1);
}

TEST(BackupTest, ARoundClosesWithoutTheSparesAndTheLateAreDropped) {
  Script script("backup { spares: 1 }", 3);
  script.Push(2, 0);
  EXPECT_EQ(script.version(), 0);
  script.Push(0, 0);
  EXPECT_EQ(script.version(), 1);
  EXPECT_EQ(script.Push(1, 0), kDropLate);
  EXPECT_EQ(script.version(), 1);
}

TEST(BackupTest, TheLateWorkerGoesOnWithTheCurrentRound) {
  Script script("backup { spares: 1 }", 3);
  for (const int64_t round : {0, 1, 2}) {
    script.Push(0, round);
    script.Push(2, round);
  }
  script.Push(1, 0);
  EXPECT_EQ(script.Pull(1, 1), 3);
  EXPECT_EQ(script.Push(1, 3), kHold);
}

TEST(BackupTest, WhoeverHasLeftIsASpare) {
  Script script("backup { spares: 1 }", 4);
  script.Push(0, 0);
  script.Push(1, 0);
  EXPECT_TRUE(script.Leave(3));
}

TEST(BackupTest, WithoutSparesItIsSync) {
  Script script("backup {}", 2);
  script.Push(0, 0);
  EXPECT_EQ(script.version(), 0);
  script.Push(1, 0);
  EXPECT_EQ(script.version(), 1);
}

TEST(BoundedTest, EachPushIsAppliedAndTheFastWaitForTheSlowest) {
  Script script("bounded { bound: 1 }", 3);
  EXPECT_EQ(script.Push(0, 0), kApply);
  EXPECT_EQ(script.Pull(0, 1), 1);
  EXPECT_EQ(script.Push(0, 1, 1), kApply);
  EXPECT_EQ(script.Pull(0, 2), kParked);
  EXPECT_THAT(script.Awaited(0, 2), ElementsAre(1, 2));
  script.Push(2, 0);
  EXPECT_THAT(script.Awaited(0, 2), ElementsAre(1));
  script.Push(1, 0);
  EXPECT_EQ(script.Pull(0, 2), 4);
}

TEST(BoundedTest, TheSlowestNeverWaits) {
  Script script("bounded { bound: 0 }", 2);
  script.Push(0, 0);
  EXPECT_EQ(script.Pull(0, 1), kParked);
  script.Push(1, 0);
  EXPECT_EQ(script.Pull(1, 1), 2);
  EXPECT_EQ(script.Pull(0, 1), 2);
}

TEST(BoundedTest, AWorkerThatHasLeftHoldsNobodyUp) {
  Script script("bounded { bound: 0 }", 2);
  script.Push(0, 0);
  EXPECT_FALSE(script.Leave(1));
  EXPECT_EQ(script.Pull(0, 1), 1);
}

TEST(AsyncTest, NobodyWaits) {
  Script script("async {}", 2);
  for (int64_t step = 0; step < 9; ++step) {
    EXPECT_EQ(script.Push(0, step, step), kApply);
    EXPECT_EQ(script.Pull(0, step + 1), step + 1);
  }
  EXPECT_EQ(script.Push(1, 0, 0), kApply);
  EXPECT_THAT(script.Awaited(0, 9), IsEmpty());
}

TEST(AsyncTest, AStepThatHasBeenJumpedOverIsRefused) {
  Script script("async {}", 2);
  EXPECT_EQ(script.Push(0, 1, 0), kRefuse);
}

TEST(AsyncTest, WhatIsTooStaleIsDropped) {
  Script script("async {} stale_updates { drop_above: 2 }", 2);
  script.Push(0, 0, 0);
  script.Push(0, 1, 1);
  EXPECT_EQ(script.Push(1, 0, 0), kApply);
  script.Push(0, 2, 3);
  EXPECT_EQ(script.Push(1, 1, 1), kDropStale);
  EXPECT_EQ(script.version(), 4);
}

TEST(FixedDelayTest, ContributionsTakeTurns) {
  Script script("fixed_delay { delay: 1 }", 3);
  EXPECT_EQ(script.Push(1, 0, 0), kWait);
  EXPECT_EQ(script.Push(0, 0, 0), kApply);
  EXPECT_EQ(script.Push(1, 0, 0), kApply);  // Asked again.
  EXPECT_EQ(script.Push(0, 1, 2), kWait);
  EXPECT_EQ(script.Push(2, 0, 1), kApply);
  EXPECT_EQ(script.Push(0, 1, 2), kApply);
}

TEST(FixedDelayTest, AStepFromOutsideMayBeAnyNumber) {
  Script script("fixed_delay { delay: 4 }", 3);
  EXPECT_EQ(script.Push(0, std::numeric_limits<int64_t>::max(), 0), kRefuse);
  EXPECT_EQ(script.Push(1, std::numeric_limits<int64_t>::max() / 2, 0), kRefuse);
}

TEST(FixedDelayTest, EachPullGetsTheVersionThatIsDelayedByExactlySoMuch) {
  Script script("fixed_delay { delay: 1 }", 2);
  EXPECT_EQ(script.Pull(0, 0), 0);
  EXPECT_EQ(script.Pull(1, 0), 0);
  script.Push(0, 0, 0);
  EXPECT_EQ(script.Pull(0, 1), 1);  // Contribution 2.
  script.Push(1, 0, 0);
  EXPECT_EQ(script.version(), 2);
  EXPECT_EQ(script.Pull(0, 1), 1);
  EXPECT_EQ(script.Pull(1, 1), 2);
  script.Push(1, 1, 2);
  EXPECT_EQ(script.Pull(1, 2), kParked);
  EXPECT_THAT(script.Awaited(1, 2), ElementsAre(0));
}

TEST(MakePolicyTest, RefusesSettingsThatDoNotSuitTheRun) {
  const auto refusal = [](const std::string& mode) {
    return std::string(MakePolicy(Mode(mode), 3).status().message());
  };
  EXPECT_EQ(refusal("backup { spares: 3 }"), "backup.spares: is 3; allowed: 0 to 2");
  EXPECT_EQ(refusal("backup { spares: -1 }"), "backup.spares: is -1; allowed: 0 to 2");
  EXPECT_EQ(refusal("bounded { bound: -1 }"),
            "bounded.bound: is -1; allowed: 0 to 1099511627776");
  EXPECT_EQ(refusal("fixed_delay { delay: 1001 }"),
            "fixed_delay.delay: is 1001; allowed: 0 to 1000");
  EXPECT_THAT(refusal("fixed_delay {} stale_updates { drop_above: 1 }"),
              testing::HasSubstr("stale_updates.drop_above"));
}

TEST(WorkerClocksTest, CountsThePushedSteps) {
  WorkerClocks clocks(3);
  EXPECT_EQ(clocks.CountPushed(0), 0);
  EXPECT_THAT(clocks.Missing(0), ElementsAre(0, 1, 2));

  clocks.RecordPush(1, 0);
  EXPECT_EQ(clocks.clock(0), 0);
  EXPECT_EQ(clocks.clock(1), 1);
  EXPECT_TRUE(clocks.HasPushed(1, 0));
  EXPECT_FALSE(clocks.HasPushed(1, 1));
  EXPECT_EQ(clocks.CountPushed(0), 1);
  EXPECT_THAT(clocks.Missing(0), ElementsAre(0, 2));

  clocks.RecordPush(0, 0);
  clocks.RecordPush(2, 0);
  EXPECT_THAT(clocks.Missing(0), IsEmpty());
  EXPECT_THAT(clocks.Missing(1), ElementsAre(0, 1, 2));
}

TEST(WorkerClocksTest, LagIsMeasuredFromTheSlowestThatHasNotLeft) {
  WorkerClocks clocks(3);
  EXPECT_EQ(clocks.Lag(0), 0);
  for (const int64_t step : {0, 1, 4}) clocks.RecordPush(0, step);
  clocks.RecordPush(1, 0);
  EXPECT_EQ(clocks.Lag(0), 5);
  EXPECT_EQ(clocks.Lag(1), 1);
  clocks.Leave(2);
  clocks.Leave(2);
  EXPECT_EQ(clocks.left(), 1);
  EXPECT_EQ(clocks.Lag(0), 4);
  EXPECT_EQ(clocks.Lag(1), 0);
  EXPECT_EQ(clocks.Lag(2), 0);
  EXPECT_THAT(clocks.Missing(1), ElementsAre(1));
}

}  // namespace
}  // namespace psring
