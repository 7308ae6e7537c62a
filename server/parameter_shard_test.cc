#include "server/parameter_shard.h"

#include <algorithm>
#include <array>
#include <atomic>
#include <bit>
#include <future>
#include <memory>
#include <thread>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "common/arithmetic.h"
#include "common/errors.h"
#include "common/optimizer.h"
#include "common/ring_order.h"
#include "common/schedule.h"
#include "common/status_matchers.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "server/shard_test_util.h"

// What holds in every mode, shown with rounds; the other modes are in
// shard_modes_test.cc.
namespace psring {
namespace {

using testing::AllOf;
using testing::ElementsAre;
using testing::HasSubstr;

constexpr absl::StatusCode kInvalidArgument = absl::StatusCode::kInvalidArgument;
constexpr absl::StatusCode kFailedPrecondition = absl::StatusCode::kFailedPrecondition;

std::vector<uint32_t> Bits(const std::vector<float>& values) {
  std::vector<uint32_t> bits;
  for (const float value : values) bits.push_back(std::bit_cast<uint32_t>(value));
  return bits;
}

using ParameterShardTest = ShardTest;

TEST_F(ParameterShardTest, Invariant1_AVersionIsTheNumberOfUpdates) {
  Make(/*workers=*/1);
  ASSERT_OK(shard_->Initialize(1, std::vector<float>{1, 2, 3}));
  EXPECT_THAT(Parameters(0, 1), ElementsAre(1, 2, 3));
  ASSERT_OK(Push(0, 0, 1, {2, 4, 6}));
  EXPECT_THAT(Parameters(1, 1), ElementsAre(0, 0, 0));
  ASSERT_OK(Push(0, 1, 1, {-2, -2, 2}));
  EXPECT_THAT(Parameters(2, 1), ElementsAre(1, 1, -1));
}

TEST_F(ParameterShardTest, Invariant2_EveryContributionIsCountedOnce) {
  Make(/*workers=*/3);
  ASSERT_OK(shard_->Initialize(0, std::vector<float>{0, 0}));
  const auto next = Pull(0, 1, 0);
  ASSERT_OK(Push(2, 0, 0, {3, 3}));
  ASSERT_OK(Push(2, 0, 0, {300, 300}));  // Acknowledged, not added.
  ASSERT_OK(Push(0, 0, 0, {6, 6}));
  ASSERT_OK(Push(2, 0, 0, {300, 300}));
  EXPECT_EQ(next->done, 0);
  ASSERT_OK(Push(1, 0, 0, {9, 12}));
  EXPECT_EQ(next->done, 1);
  ASSERT_OK(Push(1, 0, 0, {300, 300}));  // Late: its round has closed.
  // Mean (6, 7), learning rate one half.
  EXPECT_THAT(next->parameters, ElementsAre(-3, -3.5f));
  EXPECT_THAT(Parameters(1, 0), ElementsAre(-3, -3.5f));
  EXPECT_EQ(shard_->traffic().payload_in, 6 * 2 * 4);
}

TEST_F(ParameterShardTest, Invariant3_AnyOrderOfArrivalGivesTheSerialFoldsBits) {
  constexpr int kWorkers = 4;
  constexpr int64_t kSteps = 3;
  optimizer_.mutable_sgd()->set_momentum(0.9f);
  const auto gradient = [](int rank, int64_t step, int64_t count) {
    std::vector<float> values(count);
    for (int64_t i = 0; i < count; ++i) {
      const float sign = (i + rank + step) % 2 == 0 ? 1.0f : -1.0f;
      values[i] = i % 7 == 0 ? -0.0f : sign * (0.1f + 1e3f * rank) / (1.0f + i);
    }
    return values;
  };
  for (const Sync::Order order : {Sync::RANK, Sync::RING}) {
    for (const int servers : {1, 3}) {
      for (int server = 0; server < servers; ++server) {
        std::vector<int> arrival = {0, 1, 2, 3};
        do {
          Make(kWorkers, absl::StrCat("sync { order: ", Sync::Order_Name(order), " }"),
               /*count=*/101, servers, server);
          const Slot& slot = plan_.slots[plan_.of_server[server].back()];
          const Range& bucket = buckets_.buckets[slot.bucket].range;
          ASSERT_EQ(slot.bucket, 1);
          std::vector<float> parameters(slot.range.count, 0.3f);
          ASSERT_OK(shard_->Initialize(slot.index, parameters));
          SliceOptimizer optimizer(optimizer_, slot.range.count);
          for (int64_t step = 0; step < kSteps; ++step) {
            std::vector<std::vector<float>> terms;
            for (int rank = 0; rank < kWorkers; ++rank) {
              terms.push_back(gradient(rank, step, slot.range.count));
            }
            for (const int rank : arrival) {
              ASSERT_OK(Push(rank, step, slot.index, terms[rank]));
            }
            // The reference: element by element, addition by addition.
            std::vector<float> mean(slot.range.count);
            for (int64_t i = 0; i < slot.range.count; ++i) {
              int chunk = kWorkers - 1;  // Ranks 0, 1, 2, 3.
              if (order == Sync::RING) {
                const int64_t in_bucket = slot.range.begin + i - bucket.begin;
                chunk = 0;
                while (in_bucket >= PartitionRange(bucket.count, kWorkers, chunk).end()) {
                  ++chunk;
                }
              }
              float sum = terms[RingFoldRank(chunk, 0, kWorkers)][i];
              for (int position = 1; position < kWorkers; ++position) {
                sum = sum + terms[RingFoldRank(chunk, position, kWorkers)][i];
              }
              mean[i] = sum * MeanFactor(kWorkers);
            }
            optimizer.Apply(StepConstantsAt(optimizer_, kRun, step), 0, parameters, mean);
            ASSERT_EQ(Bits(Parameters(step + 1, slot.index)), Bits(parameters))
                << Sync::Order_Name(order) << ", server " << server << " of " << servers;
          }
        } while (std::next_permutation(arrival.begin(), arrival.end()));
      }
    }
  }
}

TEST_F(ParameterShardTest, Invariant4_AParkedPullIsDoneOnceWithNoLockHeld) {
  Make(/*workers=*/2);
  ASSERT_OK(shard_->Initialize(0, std::vector<float>{0, 0}));
  PullTicket ticket;
  const auto plain = Pull(0, 1, 0, &ticket);
  EXPECT_TRUE(ticket.parked());
  // A callback that calls the shard: with the slot's lock held it would never return.
  std::vector<float> seen;
  int done = 0;
  shard_->Pull({.rank = 1, .step = 1, .slot = 0}, [&](absl::StatusOr<PullAnswer>) {
    ++done;
    seen = Parameters(1, 0);
  });
  EXPECT_EQ(shard_->parked_pulls(), 2);
  ASSERT_OK(Push(0, 0, 0, {2, 4}));
  ASSERT_OK(Push(1, 0, 0, {2, 4}));
  EXPECT_EQ(shard_->parked_pulls(), 0);
  EXPECT_EQ(done, 1);
  EXPECT_THAT(seen, ElementsAre(-1, -2));
  // Neither a cancellation nor an abort that comes too late is heard.
  shard_->CancelPull(ticket);
  shard_->Abort(absl::AbortedError("late"));
  EXPECT_EQ(plain->done, 1);
  EXPECT_OK(plain->status);
}

TEST_F(ParameterShardTest, Invariant4_AnAnswerStaysItsVersionWhileItIsRead) {
  Make(/*workers=*/1);
  ASSERT_OK(shard_->Initialize(0, std::vector<float>{0, 0}));
  PullAnswer answer;
  shard_->Pull({.rank = 0, .step = 0, .slot = 0},
               [&](absl::StatusOr<PullAnswer> initial) { answer = *std::move(initial); });
  ASSERT_OK(Push(0, 0, 0, {2, 4}));
  EXPECT_THAT(Parameters(1, 0), ElementsAre(-1, -2));
  EXPECT_THAT(answer.parameters.values, ElementsAre(0, 0));
  EXPECT_EQ(shard_->parameter_memory().now(), 2 * 2 * 4);
  answer = {};
  EXPECT_EQ(shard_->parameter_memory().now(), 2 * 4);
  ASSERT_OK(Push(0, 1, 0, {2, 4}));  // In place: nobody reads.
  EXPECT_EQ(shard_->parameter_memory().peak(), 2 * 2 * 4);
}

TEST_F(ParameterShardTest, Invariant7_AfterAbortEveryCallGetsTheFirstReason) {
  Make(/*workers=*/2);
  ASSERT_OK(shard_->Initialize(0, std::vector<float>{0, 0}));
  const auto parked = Pull(0, 1, 0);
  const auto uninitialized = Pull(1, 0, 1);
  ASSERT_OK(Push(0, 0, 0, {1, 1}));
  shard_->Abort(PeerLostError("worker 1 has died"));
  shard_->Abort(absl::AbortedError("second"));

  const auto is_reason = StatusIs(absl::StatusCode::kUnavailable, "worker 1 has died");
  for (const auto& pulled : {parked, uninitialized, Pull(0, 0, 0)}) {
    EXPECT_EQ(pulled->done, 1);
    EXPECT_THAT(pulled->status, is_reason);
    EXPECT_EQ(ExitCodeOf(pulled->status), ExitCode::kPeerLost);
    EXPECT_EQ(pulled->version, -1);
  }
  EXPECT_THAT(Push(1, 0, 0, {1, 1}), is_reason);
  EXPECT_THAT(shard_->Initialize(1, std::vector<float>{1, 2, 3}), is_reason);
  EXPECT_EQ(shard_->parked_pulls(), 0);
}

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

TEST_F(ParameterShardTest, SlotsMoveIndependently) {
  Make(/*workers=*/1);
  ASSERT_OK(shard_->Initialize(0, std::vector<float>{0, 0}));
  ASSERT_OK(shard_->Initialize(1, std::vector<float>{0, 0, 0}));
  ASSERT_OK(Push(0, 0, 0, {1, 1}));
  ASSERT_OK(Push(0, 1, 0, {1, 1}));
  EXPECT_THAT(Parameters(2, 0), ElementsAre(-1, -1));
  EXPECT_THAT(Parameters(0, 1), ElementsAre(0, 0, 0));
}

TEST_F(ParameterShardTest, TellsOfEveryContributionOnce) {
  Make(/*workers=*/2);
  for (const int slot : {0, 1}) {
    ASSERT_OK(shard_->Initialize(slot, std::vector<float>(slot == 0 ? 2 : 3)));
  }
  ASSERT_OK(Push(0, 0, 0, {1, 1}));
  ASSERT_OK(Push(0, 0, 1, {1, 1, 1}));
  EXPECT_TRUE(contributions_.empty());  // Held.
  time_.now = absl::Nanoseconds(7);
  ASSERT_OK(Push(1, 0, 1, {1, 1, 1}));
  ASSERT_OK(Push(1, 0, 1, {1, 1, 1}));  // Late.
  ASSERT_OK(Push(1, 0, 0, {1, 1}));
  ASSERT_OK(PushFrom(1, 0, 1, 0, {1, 1}));
  ASSERT_OK(PushFrom(1, 1, 1, 0, {1, 1}));
  using Told = std::array<int64_t, 5>;  // Slot, rank, step, version read, applied onto.
  std::vector<Told> told;
  for (const ContributionRecord& c : contributions_) {
    EXPECT_EQ(c.outcome(), ContributionRecord::APPLIED);
    EXPECT_EQ(c.time_ns(), 7);
    EXPECT_EQ(c.clock_lag(), 0);
    told.push_back({c.slot(), c.rank(), c.step(), c.version_read(), c.version()});
  }
  EXPECT_THAT(told,
              ElementsAre(Told{1, 0, 0, 0, 0}, Told{1, 1, 0, 0, 0}, Told{0, 0, 0, 0, 0},
                          Told{0, 1, 0, 0, 0}, Told{0, 0, 1, 1, 1}, Told{0, 1, 1, 1, 1}));
}

TEST_F(ParameterShardTest, AContributionIsFreedWhenItsRoundCloses) {
  Make(/*workers=*/2);
  ASSERT_OK(shard_->Initialize(0, std::vector<float>{0, 0}));
  Contribution contribution = Own({1, 1});
  const std::weak_ptr<const void> alive = contribution.owner;
  ASSERT_OK(shard_->Push({.rank = 0, .step = 0, .slot = 0}, std::move(contribution)));
  EXPECT_FALSE(alive.expired());
  ASSERT_OK(Push(1, 0, 0, {1, 1}));
  EXPECT_TRUE(alive.expired());
}

TEST_F(ParameterShardTest, RefusesWhatDoesNotFit) {
  Make(/*workers=*/2);
  EXPECT_THAT(shard_->Initialize(0, std::vector<float>{1}),
              StatusIs(kInvalidArgument,
                       "slot 0 has 2 elements here, the initialization carries 1"));
  EXPECT_THAT(Push(0, 0, 0, {1, 1}),
              StatusIs(kFailedPrecondition, HasSubstr("slot 0 is not initialized")));
  ASSERT_OK(shard_->Initialize(0, std::vector<float>{0, 0}));
  EXPECT_THAT(shard_->Initialize(0, std::vector<float>{0, 0}),
              StatusIs(kFailedPrecondition, HasSubstr("slot 0 is already initialized")));
  EXPECT_THAT(Push(0, 0, 0, {1, 2, 3}),
              StatusIs(kInvalidArgument,
                       "slot 0 has 2 elements here, the push of rank 0 carries 3"));
  EXPECT_THAT(Push(0, 1, 0, {1, 1}),
              StatusIs(kFailedPrecondition,
                       "slot 0 is at version 0, and rank 0 pushes step 1, which has not "
                       "begun"));
  EXPECT_THAT(
      Push(0, 0, 2, {1, 1}),
      StatusIs(kInvalidArgument, "rank 0 asks for slot 2, the slots here are: 0, 1"));
  EXPECT_THAT(
      Push(2, 0, 0, {1, 1}),
      StatusIs(kInvalidArgument, "rank 2 asks for slot 0, which serves 2 workers"));
  EXPECT_THAT(Push(-1, 0, 0, {1, 1}), StatusIs(kInvalidArgument, HasSubstr("rank -1")));
  EXPECT_THAT(Push(0, -1, 0, {1, 1}), StatusIs(kInvalidArgument, HasSubstr("step -1")));
  for (const auto& pulled : {Pull(0, 0, 2), Pull(2, 0, 0), Pull(0, -1, 0)}) {
    EXPECT_EQ(pulled->done, 1);
    EXPECT_THAT(pulled->status, StatusIs(kInvalidArgument, testing::_));
  }
  // Nothing of all this has counted or been added.
  EXPECT_EQ(shard_->traffic().payload_in, 0);
  EXPECT_THAT(Parameters(0, 0), ElementsAre(0, 0));
}

TEST_F(ParameterShardTest, AServerWithoutSlotsServesNothingAndEnds) {
  Make(/*workers=*/2, "sync {}", /*count=*/2, /*servers=*/3, /*server=*/2);
  ASSERT_TRUE(plan_.of_server[2].empty());
  EXPECT_THAT(Push(0, 0, 0, {1}),
              StatusIs(kInvalidArgument, HasSubstr("the slots here are: none")));
  EXPECT_EQ(shard_->parked_pulls(), 0);
  shard_->Abort(absl::AbortedError("end"));
}

TEST_F(ParameterShardTest, CountsPayloadAndTheFirstDistributionApart) {
  Make(/*workers=*/2);
  ASSERT_OK(shard_->Initialize(1, std::vector<float>{0, 0, 0}));
  Pull(0, 0, 1);
  Pull(1, 0, 1);
  for (int rank = 0; rank < 2; ++rank) ASSERT_OK(Push(rank, 0, 1, {1, 1, 1}));
  for (int rank = 0; rank < 2; ++rank) Pull(rank, 1, 1);
  const ExchangeTraffic traffic = shard_->traffic();
  EXPECT_EQ(traffic.initial_in, 3 * 4);
  EXPECT_EQ(traffic.initial_out, 2 * 3 * 4);
  EXPECT_EQ(traffic.payload_in, ServerStepBytes(plan_, 0, 2) - 2 * 2 * 4);  // No slot 0.
  EXPECT_EQ(traffic.payload_out, 2 * 3 * 4);
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
