// What a parameter shard's callers wait for, and threads that call it at once.
#include <atomic>
#include <future>
#include <memory>
#include <thread>
#include <utility>
#include <vector>

#include "common/errors.h"
#include "common/status_matchers.h"
#include "common/step_constants.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "server/parameter_shard.h"
#include "server/shard_test_util.h"

namespace psring {
namespace {

using testing::AllOf;
using testing::ElementsAre;
using testing::HasSubstr;

using ParameterShardTest = ShardTest;

TEST_F(ParameterShardTest, APullBeforeInitializeWaitsForIt) {
  Make(/*workers=*/2);
  const auto first = Pull(1, 0, 0);
  const auto later = Pull(1, 1, 0);
  EXPECT_EQ(first->done, 0);
  ASSERT_OK(shard_->Initialize(0, std::vector<float>{7, 8}));
  EXPECT_EQ(first->done, 1);
  EXPECT_THAT(first->parameters, ElementsAre(7, 8));
  EXPECT_EQ(later->done, 0);
}

TEST_F(ParameterShardTest, ACancelledPullSaysWhomItWaitedFor) {
  Make(/*workers=*/4);
  PullTicket ticket;
  const auto uninitialized = Pull(3, 0, 0, &ticket);
  shard_->CancelPull(ticket);
  EXPECT_THAT(uninitialized->status,
              StatusIs(absl::StatusCode::kUnavailable,
                       AllOf(HasSubstr("slot 0"), HasSubstr("rank 3"),
                             HasSubstr("waits for worker 0 to initialize it"))));

  ASSERT_OK(shard_->Initialize(0, std::vector<float>{0, 0}));
  ASSERT_OK(Push(1, 0, 0, {1, 1}));
  const auto cancelled = Pull(1, 1, 0, &ticket);
  const auto kept = Pull(1, 1, 0);
  shard_->CancelPull(ticket);
  EXPECT_EQ(cancelled->done, 1);
  EXPECT_THAT(
      cancelled->status,
      StatusIs(absl::StatusCode::kUnavailable,
               AllOf(HasSubstr("pulled by rank 1 for step 1"), HasSubstr("version 0"),
                     HasSubstr("waits for the push of worker 0, 2, 3"))));
  EXPECT_EQ(ExitCodeOf(cancelled->status), ExitCode::kPeerLost);
  EXPECT_EQ(kept->done, 0);
  EXPECT_EQ(shard_->parked_pulls(), 1);
}

// Lets the test see that somebody waits, and decides what comes of it.
class HeldConstants final : public StepConstantsSource {
 public:
  absl::StatusOr<StepConstants> At(int64_t) override {
    asked_.set_value();
    return answer_.get_future().get();
  }
  void AwaitAsked() { asked_.get_future().wait(); }
  void Answer(absl::StatusOr<StepConstants> answer) {
    answer_.set_value(std::move(answer));
  }

 private:
  std::promise<void> asked_;
  std::promise<absl::StatusOr<StepConstants>> answer_;
};

TEST_F(ParameterShardTest, AWaitForConstantsHoldsNobodyElseUp) {
  const auto constants = std::make_shared<HeldConstants>();
  constants_ = constants;
  Make(/*workers=*/1);
  ASSERT_OK(shard_->Initialize(0, std::vector<float>{1, 1}));
  std::thread pusher([&] { EXPECT_OK(Push(0, 0, 0, {2, 4})); });
  constants->AwaitAsked();
  EXPECT_THAT(Parameters(0, 0), ElementsAre(1, 1));
  const auto next = Pull(0, 1, 0);
  EXPECT_EQ(next->done, 0);
  constants->Answer(StepConstants{.learning_rate = 0.25f});
  pusher.join();
  EXPECT_THAT(next->parameters, ElementsAre(0.5f, 0));
}

TEST_F(ParameterShardTest, WithoutConstantsAPushFailsAndChangesNothing) {
  const auto constants = std::make_shared<HeldConstants>();
  constants_ = constants;
  constants->Answer(PeerLostError("the coordinator is lost"));
  Make(/*workers=*/1);
  ASSERT_OK(shard_->Initialize(0, std::vector<float>{1, 1}));
  EXPECT_THAT(Push(0, 0, 0, {2, 4}),
              StatusIs(absl::StatusCode::kUnavailable, "the coordinator is lost"));
  EXPECT_THAT(Parameters(0, 0), ElementsAre(1, 1));
  EXPECT_EQ(shard_->traffic().payload_in, 0);
}

// One slot's update is under way, for as long as the test likes; another thread pushes to
// the other one, and pulls it.
TEST_F(ParameterShardTest, ASlotThatIsWorkedOnHoldsNoOtherUp) {
  std::promise<void> working, go_on;
  heard_ = [&](const ContributionRecord& contribution) {
    if (contribution.slot() != 0) return;
    working.set_value();
    go_on.get_future().wait();
  };
  Make(/*workers=*/1);
  ASSERT_OK(shard_->Initialize(0, std::vector<float>{1, 1}));
  ASSERT_OK(shard_->Initialize(1, std::vector<float>{1, 1, 1}));
  std::thread held([&] { EXPECT_OK(Push(0, 0, 0, {2, 4})); });
  working.get_future().wait();
  std::thread other([&] {
    for (int64_t step = 0; step < 3; ++step) EXPECT_OK(Push(0, step, 1, {2, 2, 2}));
    EXPECT_THAT(Parameters(3, 1), ElementsAre(-2, -2, -2));
  });
  other.join();
  go_on.set_value();
  held.join();
  EXPECT_THAT(Parameters(1, 0), ElementsAre(0, -1));
}

// Workers that run as threads, each at its own pace within a round, over both slots.
TEST_F(ParameterShardTest, ManyThreadsSeeTheSameVersions) {
  constexpr int kWorkers = 8;
  constexpr int64_t kSteps = 50;
  Make(kWorkers, "sync {}", /*count=*/3000);
  ASSERT_OK(shard_->Initialize(0, std::vector<float>(2, 0)));
  ASSERT_OK(shard_->Initialize(1, std::vector<float>(3000, 0)));
  std::vector<std::thread> workers;
  for (int rank = 0; rank < kWorkers; ++rank) {
    workers.emplace_back([&, rank] {
      for (int64_t step = 0; step < kSteps; ++step) {
        for (int slot = 0; slot < 2; ++slot) {
          const size_t count = slot == 0 ? 2 : 3000;
          std::promise<absl::Status> done;
          std::vector<float> parameters;
          shard_->Pull({.rank = rank, .step = step + 1, .slot = slot},
                       [&](const absl::StatusOr<PullAnswer>& answer) {
                         if (answer.ok()) {
                           EXPECT_EQ(answer->parameters.version, step + 1);
                           const auto values = answer->parameters.values;
                           parameters.assign(values.begin(), values.end());
                         }
                         done.set_value(answer.status());
                       });
          EXPECT_OK(Push(rank, step, slot, std::vector<float>(count, 1.0f * rank)));
          ASSERT_OK(done.get_future().get());
          // The mean of 0..7 is 3.5, the learning rate one half: exact in any order.
          EXPECT_EQ(parameters, std::vector<float>(count, -1.75f * (step + 1)));
        }
      }
    });
  }
  for (std::thread& worker : workers) worker.join();
  EXPECT_EQ(shard_->parked_pulls(), 0);
  EXPECT_EQ(shard_->traffic().payload_in, kSteps * ServerStepBytes(plan_, 0, kWorkers));
  EXPECT_EQ(shard_->traffic().payload_out, kSteps * ServerStepBytes(plan_, 0, kWorkers));
}

// Pulls, their cancellation and an abort race: each pull must be done exactly once.
TEST_F(ParameterShardTest, RacingCancellationsAndAbortEndEveryPullOnce) {
  constexpr int kThreads = 4;
  constexpr int kPulls = 200;
  Make(kThreads);
  ASSERT_OK(shard_->Initialize(0, std::vector<float>{0, 0}));
  std::vector<std::vector<std::atomic<int>>> done(kThreads);
  std::vector<std::thread> threads;
  for (int rank = 0; rank < kThreads; ++rank) {
    done[rank] = std::vector<std::atomic<int>>(kPulls);
    threads.emplace_back([&, rank] {
      for (int i = 0; i < kPulls; ++i) {
        const PullTicket ticket = shard_->Pull(
            {.rank = rank, .step = 1, .slot = 0},
            [&done, rank, i](absl::StatusOr<PullAnswer>) { ++done[rank][i]; });
        if (i % 2 == 0) shard_->CancelPull(ticket);
        if (rank == 0 && i == kPulls / 2) shard_->Abort(absl::AbortedError("end"));
      }
    });
  }
  for (std::thread& thread : threads) thread.join();
  for (const auto& of_rank : done) {
    for (const std::atomic<int>& times : of_rank) EXPECT_EQ(times, 1);
  }
}

}  // namespace
}  // namespace psring
