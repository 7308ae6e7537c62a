#include "server/sync_policy.h"

#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "server/worker_clocks.h"

namespace psring {
namespace {

using testing::ElementsAre;
using testing::IsEmpty;

constexpr PushAction kHold = PushAction::kHold;
constexpr PushAction kHoldAndClose = PushAction::kHoldAndClose;
constexpr PushAction kIgnore = PushAction::kIgnore;
constexpr PushAction kRefuse = PushAction::kRefuse;

// One slot as the policy sees it, so that a test reads like a script: Push says what
// the policy decides and lets it take effect.
class Script {
 public:
  explicit Script(int workers) : clocks_(workers) {}

  PushAction Push(int rank, int64_t step) {
    const PushAction action =
        policy_.OnPush({.rank = rank, .step = step, .slot = 0}, clocks_, version_);
    if (action == kHold || action == kHoldAndClose) clocks_.RecordPush(rank, step);
    if (action == kHoldAndClose) ++version_;
    return action;
  }
  bool MayPull(int64_t step) const { return policy_.MayPull(step, clocks_, version_); }
  int64_t version() const { return version_; }

 private:
  const SyncPolicy policy_;
  WorkerClocks clocks_;
  int64_t version_ = 0;
};

TEST(SyncPolicyTest, ARoundClosesWithTheLastWorker) {
  Script script(3);
  EXPECT_EQ(script.Push(2, 0), kHold);
  EXPECT_EQ(script.Push(0, 0), kHold);
  EXPECT_EQ(script.Push(1, 0), kHoldAndClose);
  EXPECT_EQ(script.Push(1, 1), kHold);
  EXPECT_EQ(script.Push(0, 1), kHold);
  EXPECT_EQ(script.Push(2, 1), kHoldAndClose);
  EXPECT_EQ(script.version(), 2);
}

TEST(SyncPolicyTest, OneWorkerClosesEveryRound) {
  Script script(1);
  EXPECT_EQ(script.Push(0, 0), kHoldAndClose);
  EXPECT_EQ(script.Push(0, 1), kHoldAndClose);
}

TEST(SyncPolicyTest, ARepeatedPushDoesNotStandInForAnotherWorker) {
  Script script(2);
  EXPECT_EQ(script.Push(0, 0), kHold);
  EXPECT_EQ(script.Push(0, 0), kIgnore);
  EXPECT_EQ(script.Push(0, 0), kIgnore);
  EXPECT_EQ(script.Push(1, 0), kHoldAndClose);
}

TEST(SyncPolicyTest, APushOfAClosedRoundIsIgnored) {
  Script script(2);
  script.Push(0, 0);
  EXPECT_EQ(script.Push(1, 0), kHoldAndClose);
  EXPECT_EQ(script.Push(1, 0), kIgnore);
  EXPECT_EQ(script.Push(0, 1), kHold);
  EXPECT_EQ(script.Push(0, 0), kIgnore);
}

TEST(SyncPolicyTest, APushOfAStepThatHasNotBegunIsRefused) {
  Script script(2);
  EXPECT_EQ(script.Push(0, 1), kRefuse);
  EXPECT_EQ(script.Push(0, 0), kHold);
  EXPECT_EQ(script.Push(0, 1), kRefuse);
  EXPECT_EQ(script.Push(1, 0), kHoldAndClose);
  EXPECT_EQ(script.Push(0, 1), kHold);
}

TEST(SyncPolicyTest, APullWaitsForItsStep) {
  Script script(2);
  EXPECT_TRUE(script.MayPull(0));
  EXPECT_FALSE(script.MayPull(1));
  script.Push(0, 0);
  EXPECT_FALSE(script.MayPull(1));
  script.Push(1, 0);
  EXPECT_TRUE(script.MayPull(1));
  EXPECT_FALSE(script.MayPull(2));
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

}  // namespace
}  // namespace psring
