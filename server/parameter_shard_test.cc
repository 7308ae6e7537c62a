#include "server/parameter_shard.h"

#include <algorithm>
#include <array>
#include <bit>
#include <memory>
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
  EXPECT_EQ(memory_.Of("older versions")->now(), 2 * 4);
  answer = {};
  ASSERT_OK(Push(0, 1, 0, {2, 4}));  // In place: nobody reads.
  EXPECT_EQ(memory_.Of("older versions")->now(), 0);
  EXPECT_EQ(memory_.Of("older versions")->peak(), 2 * 4);
  EXPECT_EQ(memory_.Of("parameters")->peak(), 2 * 4);
}

TEST_F(ParameterShardTest, CountsWhatItHolds) {
  optimizer_.mutable_adam()->set_learning_rate(0.5f);
  Make(/*workers=*/2);
  // Slots of 2 and 3 elements, with two floats of state for each.
  EXPECT_EQ(memory_.Of("optimizer state")->now(), 2 * 5 * 4);
  ASSERT_OK(shard_->Initialize(0, std::vector<float>{0, 0}));
  EXPECT_EQ(memory_.Of("parameters")->now(), 2 * 4);
  ASSERT_OK(shard_->Initialize(1, std::vector<float>{0, 0, 0}));
  EXPECT_EQ(memory_.Of("parameters")->now(), 5 * 4);
  const auto contributions = memory_.Of("contributions");
  ASSERT_OK(Push(0, 0, 0, {1, 1}));
  ASSERT_OK(Push(0, 0, 1, {1, 1, 1}));
  EXPECT_EQ(contributions->now(), 5 * 4);
  ASSERT_OK(Push(0, 0, 1, {1, 1, 1}));  // Again: not held twice.
  EXPECT_EQ(contributions->now(), 5 * 4);
  ASSERT_OK(Push(1, 0, 0, {1, 1}));
  EXPECT_EQ(contributions->now(), 3 * 4);
  ASSERT_OK(Push(1, 0, 1, {1, 1, 1}));
  EXPECT_EQ(contributions->now(), 0);
  EXPECT_EQ(contributions->peak(), (5 + 3) * 4);
  shard_.reset();
  for (const char* purpose : {"parameters", "optimizer state", "older versions"}) {
    EXPECT_EQ(memory_.Of(purpose)->now(), 0) << purpose;
  }
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

TEST_F(ParameterShardTest, CountsTheWorkerOnTheSameHostApart) {
  local_worker_ = 0;
  Make(/*workers=*/2);
  ASSERT_OK(shard_->Initialize(1, std::vector<float>{0, 0, 0}));
  for (int rank = 0; rank < 2; ++rank) {
    Pull(rank, 0, 1);
    ASSERT_OK(Push(rank, 0, 1, {1, 1, 1}));
    ASSERT_OK(shard_->Snapshot({.rank = rank, .step = 9, .slot = 1}));
  }
  Pull(0, 1, 1);  // Worker 1 does not.
  const ExchangeTraffic traffic = shard_->traffic();
  EXPECT_EQ(traffic.payload_in, 2 * 3 * 4);
  EXPECT_EQ(traffic.payload_out, 3 * 4);
  EXPECT_EQ(traffic.local_payload_in, 3 * 4);
  EXPECT_EQ(traffic.local_payload_out, 3 * 4);
  EXPECT_EQ(traffic.local_other_in, 3 * 4);       // What initializes.
  EXPECT_EQ(traffic.local_other_out, 2 * 3 * 4);  // The first pull and the snapshot.
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

}  // namespace
}  // namespace psring
