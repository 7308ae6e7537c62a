// What a shard does in each mode, on one slot and step by step.
#include <array>
#include <cstdint>
#include <limits>
#include <memory>
#include <vector>

#include "common/arithmetic.h"
#include "common/memory_gauge.h"
#include "common/optimizer.h"
#include "common/schedule.h"
#include "common/status_matchers.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "server/parameter_shard.h"
#include "server/shard_test_util.h"

namespace psring {
namespace {

using testing::ElementsAre;
using testing::HasSubstr;

constexpr absl::StatusCode kInvalidArgument = absl::StatusCode::kInvalidArgument;
constexpr absl::StatusCode kFailedPrecondition = absl::StatusCode::kFailedPrecondition;

class ShardModesTest : public ShardTest {
 protected:
  void MakeAtZero(int workers, const std::string& mode) {
    Make(workers, mode);
    ASSERT_OK(shard_->Initialize(0, std::vector<float>{0, 0}));
  }
  ContributionRecord::Outcome LastOutcome() const {
    return contributions_.back().outcome();
  }
};

TEST_F(ShardModesTest, SyncAppliesTheMeanAndNeverTheSum) {
  for (int workers = 1; workers <= 5; ++workers) {
    MakeAtZero(workers, "sync {}");
    for (int rank = 0; rank < workers; ++rank) ASSERT_OK(Push(rank, 0, 0, {2, 4}));
    EXPECT_THAT(Parameters(1, 0), ElementsAre(-1, -2)) << workers;
  }
}

TEST_F(ShardModesTest, BackupClosesARoundWithoutTheLateOneAndDropsItsPush) {
  MakeAtZero(3, "backup { spares: 1 }");
  ASSERT_OK(Push(2, 0, 0, {2, 4}));
  ASSERT_OK(Push(0, 0, 0, {4, 8}));
  EXPECT_THAT(Parameters(1, 0), ElementsAre(-1.5f, -3));  // The mean of two.
  ASSERT_OK(Push(1, 0, 0, {100, 100}));
  EXPECT_EQ(LastOutcome(), ContributionRecord::LATE);
  EXPECT_EQ(contributions_.back().version(), 1);
  EXPECT_THAT(Parameters(1, 0), ElementsAre(-1.5f, -3));
  ASSERT_OK(Push(1, 0, 0, {100, 100}));  // Counted already.
  EXPECT_EQ(contributions_.size(), 3);
}

TEST_F(ShardModesTest, BackupLetsTheLateWorkerGoOnWithTheCurrentRound) {
  MakeAtZero(3, "backup { spares: 1 }");
  for (int64_t round = 0; round < 3; ++round) {
    ASSERT_OK(PushFrom(round, 0, round, 0, {2, 2}));
    ASSERT_OK(PushFrom(round, 2, round, 0, {2, 2}));
  }
  ASSERT_OK(Push(1, 0, 0, {100, 100}));
  const auto late = Pull(1, 1, 0);
  EXPECT_EQ(late->done, 1);
  EXPECT_EQ(late->version, 3);
  EXPECT_EQ(late->answer.step, 3);
  ASSERT_OK(PushFrom(3, 1, 3, 0, {4, 4}));
  ASSERT_OK(PushFrom(3, 2, 3, 0, {4, 4}));
  EXPECT_THAT(Pull(2, 4, 0)->parameters, ElementsAre(-5, -5));
}

TEST_F(ShardModesTest, WhereEachPushIsAppliedItsStalenessIsRecorded) {
  MakeAtZero(2, "async { } stale_updates { scale: ONE }");
  ASSERT_OK(PushFrom(0, 0, 0, 0, {2, 2}));
  ASSERT_OK(PushFrom(1, 0, 1, 0, {2, 2}));
  const auto third = Pull(0, 2, 0);
  EXPECT_THAT(third->parameters, ElementsAre(-2, -2));
  EXPECT_EQ(third->answer.step, 2);
  ASSERT_OK(PushFrom(0, 1, 0, 0, {2, 2}));  // Computed two versions ago.
  ASSERT_OK(PushFrom(2, 0, 2, 0, {2, 2}));
  using Told = std::array<int64_t, 4>;  // Rank, version read, applied onto, clock lag.
  std::vector<Told> told;
  for (const ContributionRecord& c : contributions_) {
    told.push_back({c.rank(), c.version_read(), c.version(), c.clock_lag()});
  }
  // Rank 0 was two steps ahead of rank 1 when it was given version 2.
  EXPECT_THAT(told, ElementsAre(Told{0, 0, 0, 0}, Told{0, 1, 1, 0}, Told{1, 0, 2, 0},
                                Told{0, 2, 3, 2}));
}

TEST_F(ShardModesTest, AWorkerSeesItsOwnPushEvenIfThePullOvertakesIt) {
  for (const char* const mode : {"async {}", "bounded { bound: 3 }"}) {
    MakeAtZero(2, mode);
    const auto early = Pull(0, 1, 0);
    EXPECT_EQ(early->done, 0);
    ASSERT_OK(Push(0, 0, 0, {4, 4}));
    EXPECT_EQ(early->done, 1);
    EXPECT_THAT(early->parameters, ElementsAre(-1, -1));
  }
}

TEST_F(ShardModesTest, BoundedParksTheFastAndSaysWhoReleasedThem) {
  MakeAtZero(2, "bounded { bound: 1 }");
  ASSERT_OK(PushFrom(0, 0, 0, 0, {1, 1}));
  EXPECT_EQ(Pull(0, 1, 0)->done, 1);
  ASSERT_OK(PushFrom(1, 0, 1, 0, {1, 1}));
  time_.now = absl::Milliseconds(10);
  const auto parked = Pull(0, 2, 0);
  EXPECT_EQ(parked->done, 0);
  EXPECT_EQ(shard_->Awaited(), "the push of worker 1 (slot 0, at version 2)");
  time_.now = absl::Milliseconds(35);
  ASSERT_OK(PushFrom(0, 1, 0, 0, {1, 1}));
  EXPECT_EQ(parked->done, 1);
  EXPECT_EQ(parked->version, 3);
  EXPECT_EQ(parked->answer.parked, absl::Milliseconds(25));
  EXPECT_EQ(parked->answer.released_by, 1);
}

// From one look at the clock to the next.
TEST_F(ShardModesTest, AnAnswerSaysHowLongItsUpdateHasTaken) {
  MakeAtZero(2, "sync { order: RANK }");
  EXPECT_EQ(Pull(0, 0, 0)->answer.working, absl::ZeroDuration());
  ASSERT_OK(PushFrom(0, 0, 0, 0, {1, 1}));
  const auto parked = Pull(0, 1, 0);
  time_.tick = absl::Milliseconds(1);
  ASSERT_OK(PushFrom(0, 1, 0, 0, {1, 1}));
  EXPECT_EQ(parked->answer.working, absl::Milliseconds(1));
  EXPECT_EQ(Pull(1, 1, 0)->answer.working, absl::Milliseconds(1));
}

TEST_F(ShardModesTest, FixedDelayAppliesInTurnFromExactVersions) {
  MakeAtZero(2, "fixed_delay { delay: 1 } stale_updates { scale: ONE }");
  time_.tick = absl::Milliseconds(1);
  ASSERT_OK(PushFrom(0, 1, 0, 0, {8, 8}));  // Contribution 1: waits for 0.
  EXPECT_TRUE(contributions_.empty());
  ASSERT_OK(PushFrom(0, 1, 0, 0, {800, 800}));  // Counted already.
  ASSERT_OK(PushFrom(0, 0, 0, 0, {2, 2}));      // Contribution 0; then 1's turn.
  ASSERT_EQ(contributions_.size(), 2);
  EXPECT_EQ(contributions_[1].rank(), 1);
  EXPECT_EQ(contributions_[1].version(), 1);
  // Contribution 2 is computed from version 1, although version 2 is there.
  const auto second = Pull(0, 1, 0);
  EXPECT_EQ(second->version, 1);
  EXPECT_THAT(second->parameters, ElementsAre(-1, -1));
  EXPECT_EQ(second->answer.step, 1);
  EXPECT_EQ(second->answer.working, absl::ZeroDuration());  // It has been there.
  const auto third = Pull(1, 1, 0);
  EXPECT_EQ(third->version, 2);
  EXPECT_THAT(third->parameters, ElementsAre(-5, -5));
  EXPECT_EQ(memory_.Of("older versions")->now(), 2 * 4);  // The version before.
}

TEST_F(ShardModesTest, ScalesTheLearningRate) {
  // Three updates, the last with staleness 2.
  const auto run = [this](const std::string& mode) {
    MakeAtZero(4, mode);
    EXPECT_OK(PushFrom(0, 0, 0, 0, {8, 8}));
    EXPECT_OK(PushFrom(1, 0, 1, 0, {8, 8}));
    EXPECT_OK(PushFrom(0, 1, 0, 0, {8, 8}));
    return Pull(1, 1, 0)->parameters[0];
  };
  EXPECT_EQ(run("async {} stale_updates { scale: ONE }"), -12);
  EXPECT_EQ(run("async {} stale_updates { scale: MEAN }"), -3);
  EXPECT_EQ(run("async {}"), -3);
  EXPECT_EQ(run("async {} stale_updates { scale: INVERSE_STALENESS }"), -10);
}

// The same numbers by hand, for an optimizer whose step size is not the learning rate.
TEST_F(ShardModesTest, ScalesAdamsStep) {
  optimizer_.Clear();
  Adam& adam = *optimizer_.mutable_adam();
  adam.set_learning_rate(0.5f);
  adam.set_beta1(0.9f);
  adam.set_beta2(0.999f);
  adam.set_epsilon(1e-8f);
  MakeAtZero(4, "async {}");
  ASSERT_OK(PushFrom(0, 0, 0, 0, {3, 3}));
  StepConstants constants = StepConstantsAt(optimizer_, kRun, 0);
  constants.learning_rate *= MeanFactor(4);
  constants.adam_step_size *= MeanFactor(4);
  std::vector<float> expected = {0, 0};
  SliceOptimizer reference(optimizer_, 2);
  reference.Apply(constants, 0, expected, std::vector<float>{3, 3});
  EXPECT_EQ(Parameters(1, 0), expected);
  EXPECT_NEAR(expected[0], -0.125f, 1e-6);
}

TEST_F(ShardModesTest, CompensatesForTheDelay) {
  MakeAtZero(2, "async {} stale_updates { scale: ONE delay_compensation: 0.5 }");
  EXPECT_EQ(Pull(0, 0, 0)->done, 1);
  EXPECT_EQ(Pull(1, 0, 0)->done, 1);
  ASSERT_OK(PushFrom(0, 0, 0, 0, {4, 2}));  // From where it is: nothing to compensate.
  EXPECT_THAT(Pull(0, 1, 0)->parameters, ElementsAre(-2, -1));
  // 2 + 0.5 * 2^2 * (-2 - 0) = -2; 4 + 0.5 * 4^2 * (-1 - 0) = -4.
  ASSERT_OK(PushFrom(0, 1, 0, 0, {2, 4}));
  EXPECT_THAT(Pull(1, 1, 0)->parameters, ElementsAre(-1, 1));
  EXPECT_THAT(PushFrom(0, 0, 1, 0, {1, 1}),
              StatusIs(kInvalidArgument, HasSubstr("computed from version 0, but has "
                                                   "pulled version 1")));
}

TEST_F(ShardModesTest, DropsWhatIsTooStale) {
  MakeAtZero(2, "async {} stale_updates { scale: ONE drop_above: 1 }");
  ASSERT_OK(PushFrom(0, 0, 0, 0, {2, 2}));
  ASSERT_OK(PushFrom(1, 0, 1, 0, {2, 2}));
  ASSERT_OK(PushFrom(0, 1, 0, 0, {100, 100}));
  EXPECT_EQ(LastOutcome(), ContributionRecord::STALE);
  const auto next = Pull(1, 1, 0);
  EXPECT_EQ(next->version, 2);
  EXPECT_THAT(next->parameters, ElementsAre(-2, -2));
}

TEST_F(ShardModesTest, LeavingClosesTheRoundAndReleasesThePulls) {
  MakeAtZero(3, "sync {}");
  ASSERT_OK(Push(0, 0, 0, {2, 2}));
  ASSERT_OK(Push(1, 0, 0, {4, 4}));
  const auto parked = Pull(0, 1, 0);
  EXPECT_EQ(parked->done, 0);
  ASSERT_OK(shard_->Leave(2));
  EXPECT_EQ(parked->done, 1);
  EXPECT_THAT(parked->parameters, ElementsAre(-1.5f, -1.5f));
  EXPECT_EQ(parked->answer.released_by, 2);
  ASSERT_OK(shard_->Leave(2));  // Again: nothing.
  EXPECT_THAT(Push(2, 0, 0, {1, 1}),
              StatusIs(kFailedPrecondition, HasSubstr("which it has left")));
  // The two that are left go on alone.
  ASSERT_OK(PushFrom(1, 0, 1, 0, {2, 2}));
  ASSERT_OK(PushFrom(1, 1, 1, 0, {2, 2}));
  EXPECT_THAT(Parameters(2, 0), ElementsAre(-2.5f, -2.5f));
}

TEST_F(ShardModesTest, LeavingReleasesWhoeverTheBoundHeld) {
  MakeAtZero(2, "bounded { bound: 0 }");
  ASSERT_OK(Push(0, 0, 0, {2, 2}));
  const auto parked = Pull(0, 1, 0);
  EXPECT_EQ(parked->done, 0);
  ASSERT_OK(shard_->Leave(1));
  EXPECT_EQ(parked->done, 1);
}

// Twice two contributions, however they are spread: here one worker makes three.
TEST_F(ShardModesTest, Invariant6_ExactlyTheBudgetIsBegun) {
  steps_ = 2;
  MakeAtZero(2, "async {}");
  EXPECT_FALSE(Pull(0, 0, 0)->answer.finished);
  EXPECT_FALSE(Pull(1, 0, 0)->answer.finished);
  ASSERT_OK(PushFrom(0, 0, 0, 0, {1, 1}));
  EXPECT_FALSE(Pull(0, 1, 0)->answer.finished);
  EXPECT_FALSE(Pull(0, 1, 0)->answer.finished);  // The same one.
  ASSERT_OK(PushFrom(1, 0, 1, 0, {1, 1}));
  EXPECT_FALSE(Pull(0, 2, 0)->answer.finished);  // The fourth and last.
  ASSERT_OK(PushFrom(0, 1, 0, 0, {1, 1}));
  EXPECT_TRUE(Pull(1, 1, 0)->answer.finished);
  EXPECT_TRUE(Pull(1, 1, 0)->answer.finished);
  ASSERT_OK(PushFrom(2, 0, 2, 0, {1, 1}));
  EXPECT_TRUE(Pull(0, 3, 0)->answer.finished);
  EXPECT_EQ(contributions_.size(), 4);
}

// Whoever comes late has parameters for step 0, and makes it.
TEST_F(ShardModesTest, AWorkerThatComesLateMayStillMakeItsFirstStep) {
  steps_ = 1;
  Make(2, "async {}");
  ASSERT_OK(shard_->Initialize(0, FloatPieces(std::vector<float>{0, 0})));
  EXPECT_FALSE(Pull(0, 0, 0)->answer.finished);
  EXPECT_OK(PushFrom(0, 0, 0, 0, {1, 1}));
  EXPECT_TRUE(Pull(0, 1, 0)->answer.finished);
  EXPECT_FALSE(Pull(1, 0, 0)->answer.finished);
  EXPECT_OK(PushFrom(1, 1, 0, 0, {1, 1}));
  EXPECT_TRUE(Pull(1, 1, 0)->answer.finished);
}

TEST_F(ShardModesTest, APushThatNoAnswerHasAllowedIsRefused) {
  steps_ = 2;
  MakeAtZero(2, "async {}");
  ASSERT_OK(PushFrom(0, 0, 0, 0, {1, 1}));
  EXPECT_THAT(
      PushFrom(1, 0, 1, 0, {1, 1}),
      StatusIs(kFailedPrecondition, HasSubstr("no answer to a pull has allowed")));
  EXPECT_FALSE(Pull(0, 1, 0)->answer.finished);
  EXPECT_OK(PushFrom(1, 0, 1, 0, {1, 1}));
}

TEST_F(ShardModesTest, BackupsLastRoundsMoveLessFarWhereFewerFillThem) {
  MakeAtZero(4, "backup { spares: 1 }");
  for (const int rank : {2, 3}) ASSERT_OK(shard_->Leave(rank));
  ASSERT_OK(Push(0, 0, 0, {3, 6}));  // One of three.
  EXPECT_THAT(Pull(0, 1, 0)->parameters, ElementsAre(-0.5f, -1));
}

TEST_F(ShardModesTest, FixedDelayKeepsNoMoreThanTheDelayWaiting) {
  MakeAtZero(2, "fixed_delay { delay: 2 }");
  ASSERT_OK(PushFrom(0, 1, 0, 0, {1, 1}));
  // Its parameters would be those of version 1, which is not there.
  EXPECT_THAT(PushFrom(0, 1, 1, 0, {1, 1}),
              StatusIs(kFailedPrecondition, HasSubstr("has not begun")));
}

// Workers that push and pull in turn: between two of its own, a worker's parameters see
// one update of each of the others.
TEST_F(ShardModesTest, AsyncWithEqualWorkersHasStalenessOfAllTheOthers) {
  for (const int workers : {2, 5, 8}) {
    contributions_.clear();
    MakeAtZero(workers, "async {}");
    std::vector<int64_t> version(workers);
    for (int64_t step = 0; step < 12; ++step) {
      for (int rank = 0; rank < workers; ++rank) {
        ASSERT_OK(PushFrom(version[rank], rank, step, 0, {0, 0}));
        version[rank] = Pull(rank, step + 1, 0)->version;
      }
    }
    int64_t sum = 0;
    for (const ContributionRecord& c : contributions_) {
      sum += c.version() - c.version_read();
    }
    const double mean =
        static_cast<double>(sum) / static_cast<double>(contributions_.size());
    EXPECT_NEAR(mean, workers - 1, 0.2 * (workers - 1));
  }
}

TEST_F(ShardModesTest, OnlySlotZeroEndsTheRun) {
  steps_ = 1;
  MakeAtZero(1, "async {}");
  ASSERT_OK(shard_->Initialize(1, std::vector<float>{0, 0, 0}));
  for (const int slot : {0, 1}) Pull(0, 0, slot);
  ASSERT_OK(Push(0, 0, 0, {1, 1}));
  ASSERT_OK(Push(0, 0, 1, {1, 1, 1}));
  EXPECT_TRUE(Pull(0, 1, 0)->answer.finished);
  EXPECT_FALSE(Pull(0, 1, 1)->answer.finished);
}

TEST_F(ShardModesTest, SnapshotsAreOfSoManyStepsOfAllWorkers) {
  steps_ = 5;
  snapshot_interval_ = 2;
  MakeAtZero(2, "async {} stale_updates { scale: ONE }");
  for (int64_t version = 0; version < 10; ++version) {
    time_.now = absl::Seconds(version);
    const int rank = static_cast<int>(version % 2);
    EXPECT_EQ(Pull(rank, version / 2, 0)->done, 1);
    ASSERT_OK(PushFrom(version, rank, version / 2, 0, {2, 2}));
  }
  for (const auto& [step, version] :
       std::vector<std::pair<int64_t, int64_t>>{{2, 4}, {4, 8}, {5, 10}}) {
    ASSERT_OK_AND_ASSIGN(const SlotSnapshot snapshot, shard_->Snapshot({.step = step}));
    EXPECT_EQ(snapshot.parameters.version, version);
    EXPECT_THAT(snapshot.parameters.values, ElementsAre(-version, -version));
    EXPECT_EQ(snapshot.time, absl::Seconds(version - 1));
  }
  EXPECT_THAT(shard_->Snapshot({.step = 3}),
              StatusIs(absl::StatusCode::kNotFound, HasSubstr("no snapshot of step 3")));
  EXPECT_EQ(shard_->traffic().snapshot_out, 3 * 2 * 4);
}

TEST_F(ShardModesTest, ASnapshotThatTheRunHasNotReachedIsOfNow) {
  steps_ = 5;
  MakeAtZero(2, "sync {}");
  ASSERT_OK(Push(0, 0, 0, {2, 2}));
  ASSERT_OK(shard_->Leave(1));
  ASSERT_OK(shard_->Leave(0));
  ASSERT_OK_AND_ASSIGN(const SlotSnapshot snapshot, shard_->Snapshot({.step = 5}));
  EXPECT_EQ(snapshot.parameters.version, 1);
  EXPECT_THAT(snapshot.parameters.values, ElementsAre(-1, -1));
  EXPECT_OK(shard_->Snapshot({.step = std::numeric_limits<int64_t>::max()}));
}

TEST_F(ShardModesTest, InSyncASnapshotIsTheVersionOfItsStep) {
  steps_ = 4;
  snapshot_interval_ = 1;
  MakeAtZero(3, "sync {}");
  for (int64_t step = 0; step < 4; ++step) {
    for (int rank = 0; rank < 3; ++rank) {
      EXPECT_EQ(Pull(rank, step, 0)->done, 1);
      ASSERT_OK(PushFrom(step, rank, step, 0, {2, 2}));
    }
  }
  for (int64_t step = 1; step <= 4; ++step) {
    ASSERT_OK_AND_ASSIGN(const SlotSnapshot snapshot, shard_->Snapshot({.step = step}));
    EXPECT_EQ(snapshot.parameters.version, step);
  }
}

TEST_F(ShardModesTest, RefusesAPushFromAVersionThatIsNotThere) {
  MakeAtZero(2, "async {}");
  EXPECT_THAT(PushFrom(1, 0, 0, 0, {1, 1}),
              StatusIs(kInvalidArgument, HasSubstr("computed from version 1")));
  EXPECT_THAT(PushFrom(-1, 0, 0, 0, {1, 1}),
              StatusIs(kInvalidArgument, HasSubstr("computed from version -1")));
  EXPECT_THAT(shard_->Leave(2), StatusIs(kInvalidArgument, HasSubstr("rank 2")));
}

// Contributions that come early are kept, and counted, where the order of additions or of
// updates is fixed; elsewhere none is kept beyond its push.
TEST_F(ShardModesTest, OnlyModesWithAnOrderKeepContributions) {
  struct Kept {
    const char* mode;
    std::vector<int64_t> after;  // Each of the pushes of ranks 2, 1 and 0.
    int64_t peak;
  };
  const Kept kCases[] = {{"sync {}", {1, 2, 0}, 3},
                         {"backup { spares: 1 }", {1, 0, 0}, 2},
                         {"bounded { bound: 1 }", {0, 0, 0}, 1},
                         {"async {}", {0, 0, 0}, 1},
                         {"fixed_delay { delay: 2 }", {1, 2, 0}, 3}};
  constexpr int64_t kSlotBytes = 2 * sizeof(float);
  for (const Kept& kept : kCases) {
    memory_ = MemoryGauges();
    MakeAtZero(/*workers=*/3, kept.mode);
    const auto contributions = memory_.Of(memory_purpose::kContributions);
    for (int rank = 2; rank >= 0; --rank) {
      ASSERT_OK(Push(rank, /*step=*/0, 0, {1, 1}));
      EXPECT_EQ(contributions->now(), kept.after[2 - rank] * kSlotBytes)
          << kept.mode << ", rank " << rank;
    }
    EXPECT_EQ(contributions->peak(), kept.peak * kSlotBytes) << kept.mode;
  }
}

}  // namespace
}  // namespace psring
