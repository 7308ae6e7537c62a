#include "experiments/compare_replicas.h"

#include <map>
#include <string>
#include <utility>
#include <vector>

#include "experiments/arm_result_test_util.h"
#include "gtest/gtest.h"

namespace psring {
namespace {

// Arms as Summarize leaves them, with digests by step.
class CompareReplicasTest : public testing::Test {
 protected:
  void Add(const JobSpec& spec, std::map<int64_t, uint64_t> digests,
           Verdict verdict = Verdict::kPass) {
    specs_.push_back(spec);
    ArmResult& arm = arms_.emplace_back();
    arm.name = spec.arm().name();
    arm.digests = std::move(digests);
    arm.replica = {.verdict = verdict, .why = "own ranks"};
  }
  const Certificate& Compare(size_t arm) {
    CompareReplicas(specs_, &arms_);
    return arms_[arm].replica;
  }

  std::vector<JobSpec> specs_;
  std::vector<ArmResult> arms_;
};

TEST_F(CompareReplicasTest, EqualArmsPassAndSayWithWhom) {
  Add(ServersSpec(3, 2, Sync::RING), {{0, 10}, {1, 11}});
  Add(RingSpec(3), {{0, 10}, {1, 11}});
  EXPECT_EQ(Compare(1).verdict, Verdict::kPass);
  EXPECT_EQ(arms_[1].replica.why, "own ranks, and to arm servers at 2");
  EXPECT_EQ(arms_[0].replica.why, "own ranks");
}

TEST_F(CompareReplicasTest, UnequalArmsFailWithTheFirstUnequalStep) {
  Add(ServersSpec(3, 2, Sync::RING), {{0, 10}, {1, 11}, {2, 12}});
  Add(RingSpec(3), {{0, 10}, {1, 0xbad}, {2, 0xbad}});
  EXPECT_EQ(Compare(1).verdict, Verdict::kFail);
  EXPECT_EQ(arms_[1].replica.why,
            "after step 1 the digest is 0000000000000bad, that of arm servers "
            "000000000000000b");
  EXPECT_EQ(arms_[0].replica.verdict, Verdict::kPass);
}

TEST_F(CompareReplicasTest, AlgorithmsThatAddInAnotherOrderNeedNotBeEqual) {
  for (const int workers : {2, 3}) {
    specs_.clear();
    arms_.clear();
    JobSpec tree = RingSpec(workers);
    tree.mutable_arm()->mutable_ring()->set_algorithm(RingMode::TREE);
    Add(RingSpec(workers), {{0, 10}});
    Add(tree, {{0, 0xbad}});
    // The sum of two terms is the same either way round.
    EXPECT_EQ(Compare(1).verdict, workers == 2 ? Verdict::kFail : Verdict::kPass);
  }
}

// Of buckets of 12 and 28 bytes.
TEST_F(CompareReplicasTest, AutoIsARingWhereItSumsEveryBucketByRing) {
  for (const int64_t limit : {11, 12, 27, 28}) {
    for (const int workers : {2, 3}) {
      specs_.clear();
      arms_.clear();
      JobSpec spec = RingSpec(workers);
      RingMode& ring = *spec.mutable_arm()->mutable_ring();
      ring.set_algorithm(RingMode::AUTO);
      AlgorithmChoice& small = *ring.add_choices();
      small.set_up_to_bytes(limit);
      small.set_algorithm(RingMode::TREE);
      ring.add_choices()->set_algorithm(RingMode::RING);
      Add(RingSpec(workers), {{0, 10}});
      Add(spec, {{0, 0xbad}});
      EXPECT_EQ(Compare(1).verdict,
                workers == 2 || limit < 12 ? Verdict::kFail : Verdict::kPass)
          << limit << " bytes, " << workers << " workers";
    }
  }
}

// Buckets of 12 and 28 bytes, or one.
TEST_F(CompareReplicasTest, OtherBucketsNeedNotBeEqual) {
  for (const int workers : {2, 3}) {
    specs_.clear();
    arms_.clear();
    JobSpec one = RingSpec(workers);
    one.mutable_experiment()->mutable_buckets()->set_first_cap_bytes(40);
    JobSpec later = RingSpec(workers);
    later.mutable_experiment()->mutable_buckets()->set_overlap(false);
    Add(RingSpec(workers), {{0, 10}});
    Add(one, {{0, 0xbad}});
    Add(later, {{0, 10}});
    EXPECT_EQ(Compare(1).verdict, workers == 2 ? Verdict::kFail : Verdict::kPass);
    EXPECT_EQ(arms_[2].replica.why, "own ranks, and to arm ring at 1");
  }
}

TEST_F(CompareReplicasTest, AShardedOptimizerIsTheSameTraining) {
  JobSpec sharded = RingSpec(3);
  sharded.mutable_arm()->mutable_ring()->set_sharded_optimizer(true);
  Add(RingSpec(3), {{0, 10}});
  Add(sharded, {{0, 0xbad}});
  EXPECT_EQ(Compare(1).verdict, Verdict::kFail);
}

TEST_F(CompareReplicasTest, MadeUpGradientsHaveTheSameSumInEveryOrder) {
  JobSpec tree = RingSpec(3);
  tree.mutable_arm()->mutable_ring()->set_algorithm(RingMode::TREE);
  JobSpec by_rank = ServersSpec(3, 1, Sync::RANK);
  for (JobSpec* const spec : {&tree, &by_rank}) {
    spec->mutable_experiment()->mutable_compute()->mutable_emulated();
  }
  Add(tree, {{0, 10}});
  Add(by_rank, {{0, 0xbad}});
  EXPECT_EQ(Compare(1).verdict, Verdict::kFail);
}

TEST_F(CompareReplicasTest, WhatIsRoundedOnTheWireIsComparedWithNoOtherArm) {
  JobSpec ring = RingSpec(2);
  ring.mutable_arm()->mutable_wire()->mutable_bf16();
  Add(ring, {{0, 10}});
  Add(ServersSpec(2, 1, Sync::RING), {{0, 0xbad}});
  JobSpec servers = ServersSpec(2, 1, Sync::RING);
  *servers.mutable_arm()->mutable_wire() = ring.arm().wire();
  Add(servers, {{0, 0xbad2}});
  EXPECT_EQ(Compare(2).verdict, Verdict::kPass);
  for (const ArmResult& arm : arms_) EXPECT_EQ(arm.replica.why, "own ranks");
}

TEST_F(CompareReplicasTest, OnlyStepsThatBothCheckedCount) {
  Add(RingSpec(2), {{0, 10}, {2, 12}});
  Add(ServersSpec(2, 1, Sync::RING), {{1, 0xbad}, {2, 12}});
  EXPECT_EQ(Compare(1).why, "own ranks, and to arm ring at 1");
}

TEST_F(CompareReplicasTest, NothingInCommonChangesNothing) {
  Add(RingSpec(2), {{0, 10}});
  Add(ServersSpec(2, 1, Sync::RING), {{1, 11}});
  EXPECT_EQ(Compare(1).why, "own ranks");
}

TEST_F(CompareReplicasTest, RankOrderIsAnotherSumFromThreeWorkersOn) {
  Add(RingSpec(3), {{0, 10}});
  Add(ServersSpec(3, 1, Sync::RANK), {{0, 99}});
  EXPECT_EQ(Compare(1).verdict, Verdict::kPass);
  EXPECT_EQ(arms_[1].replica.why, "own ranks");
}

TEST_F(CompareReplicasTest, RankOrderIsTheSameSumForTwoWorkers) {
  Add(RingSpec(2), {{0, 10}});
  Add(ServersSpec(2, 1, Sync::RANK), {{0, 99}});
  EXPECT_EQ(Compare(1).verdict, Verdict::kFail);
}

// The first arm that must be equal is the reference, not merely the first arm.
TEST_F(CompareReplicasTest, ArmsThatNeedNotBeEqualAreSkipped) {
  Add(ServersSpec(3, 1, Sync::RANK), {{0, 99}});
  Add(RingSpec(2), {{0, 88}});
  Add(RingSpec(3), {{0, 10}});
  Add(ServersSpec(3, 2, Sync::RING), {{0, 10}});
  EXPECT_EQ(Compare(3).why, "own ranks, and to arm ring at 1");
  EXPECT_EQ(arms_[2].replica.why, "own ranks");
}

TEST_F(CompareReplicasTest, OneReplicaIsComparedWithOtherArms) {
  Add(LocalSpec(), {{0, 10}}, Verdict::kNotApplicable);
  Add(RingSpec(1), {{0, 10}}, Verdict::kNotApplicable);
  EXPECT_EQ(Compare(1).verdict, Verdict::kPass);
  EXPECT_EQ(arms_[1].replica.why, "own ranks; equal to arm local at 1");
  EXPECT_EQ(arms_[0].replica.verdict, Verdict::kNotApplicable);
}

TEST_F(CompareReplicasTest, AnArmThatFailsByItselfKeepsItsReason) {
  Add(RingSpec(2), {{0, 10}});
  Add(ServersSpec(2, 1, Sync::RING), {{0, 10}}, Verdict::kFail);
  EXPECT_EQ(Compare(1).verdict, Verdict::kFail);
  EXPECT_EQ(arms_[1].replica.why, "own ranks");
}

// The arms that a run did not come to have no results.
TEST_F(CompareReplicasTest, FewerResultsThanArms) {
  Add(RingSpec(2), {{0, 10}});
  Add(ServersSpec(2, 1, Sync::RING), {{0, 10}});
  arms_.pop_back();
  EXPECT_EQ(Compare(0).why, "own ranks");
}

// Each run has its seed's counterpart in the other arm.
TEST_F(CompareReplicasTest, RunsAreComparedSeedBySeed) {
  for (const uint64_t seed : {1, 2}) {
    JobSpec spec = ServersSpec(3, 1, Sync::RING);
    spec.mutable_experiment()->mutable_training()->set_seed(seed);
    Add(spec, {{0, 10 * seed}});
  }
  for (const uint64_t seed : {1, 2}) {
    JobSpec spec = RingSpec(3);
    spec.mutable_experiment()->mutable_training()->set_seed(seed);
    Add(spec, {{0, seed == 1 ? 10 : 0xbad}});
  }
  EXPECT_EQ(Compare(2).why, "own ranks, and to arm servers at 1");
  EXPECT_EQ(arms_[3].replica.verdict, Verdict::kFail);
  EXPECT_EQ(arms_[1].replica.why, "own ranks");
}

TEST_F(CompareReplicasTest, AnotherOptimizerIsAnotherTraining) {
  Add(RingSpec(2), {{0, 10}});
  JobSpec spec = ServersSpec(2, 1, Sync::RING);
  spec.mutable_experiment()
      ->mutable_training()
      ->mutable_optimizer()
      ->mutable_sgd()
      ->set_learning_rate(0.5f);
  Add(spec, {{0, 99}});
  EXPECT_EQ(Compare(1).why, "own ranks");
}

TEST_F(CompareReplicasTest, ModesThatAreNotInLockstepHaveNoEqual) {
  Add(RingSpec(2), {{0, 10}});
  Add(BackupSpec(2, 1), {{0, 99}});
  Add(BoundedSpec(2, 0), {{0, 99}});
  Add(AsyncSpec(2), {{0, 99}});
  Add(BackupSpec(2, 0), {{0, 10}});
  EXPECT_EQ(Compare(1).why, "own ranks");
  EXPECT_EQ(arms_[2].replica.why, "own ranks");
  EXPECT_EQ(arms_[3].replica.why, "own ranks");
  // Without spares it is sync.
  EXPECT_EQ(arms_[4].replica.why, "own ranks, and to arm ring at 1");
}

// One that a gradient has ended may have fewer steps than the other.
TEST_F(CompareReplicasTest, RunsOfUnequalLengthAreComparedAsFarAsBothGo) {
  Add(RingSpec(2), {{0, 10}, {1, 11}, {2, 12}});
  Add(ServersSpec(2, 1, Sync::RING), {{0, 10}, {1, 11}});
  EXPECT_EQ(Compare(1).why, "own ranks, and to arm ring at 2");
}

TEST_F(CompareReplicasTest, AnotherArmSaysWhichOfTwoRanksIsWrong) {
  Add(RingSpec(2), {{0, 10}, {1, 0xbad}}, Verdict::kFail);
  arms_[0].difference = ReplicaDifference{.step = 1, .digests = {0xbad, 11}};
  Add(ServersSpec(2, 1, Sync::RING), {{0, 10}, {1, 11}});
  EXPECT_EQ(Compare(0).why, "own ranks; arm servers is equal to rank 1: wrong is rank 0");
  // It is none to be compared with.
  EXPECT_EQ(arms_[1].replica.verdict, Verdict::kPass);
  EXPECT_EQ(arms_[1].replica.why, "own ranks");
}

TEST_F(CompareReplicasTest, BothRanksMayBeWrong) {
  Add(ServersSpec(2, 1, Sync::RING), {{0, 10}, {1, 11}});
  Add(RingSpec(2), {{0, 10}, {1, 0xbad}}, Verdict::kFail);
  arms_[1].difference = ReplicaDifference{.step = 1, .digests = {0xbad, 0xbad2}};
  EXPECT_EQ(Compare(1).why, "own ranks; arm servers is equal to none of them");
}

TEST_F(CompareReplicasTest, WhoseRanksDifferSaysNothingOfOthers) {
  for (const JobSpec& spec : {RingSpec(2), ServersSpec(2, 1, Sync::RING)}) {
    Add(spec, {{1, 0xbad}}, Verdict::kFail);
    arms_.back().difference = ReplicaDifference{.step = 1, .digests = {0xbad, 11}};
  }
  EXPECT_EQ(Compare(0).why, "own ranks");
  EXPECT_EQ(Compare(1).why, "own ranks");
  // A majority needs nobody else.
  specs_.clear();
  arms_.clear();
  Add(ServersSpec(3, 1, Sync::RING), {{1, 11}});
  Add(RingSpec(3), {{1, 0xbad}}, Verdict::kFail);
  arms_[1].difference =
      ReplicaDifference{.step = 1, .digests = {0xbad, 11, 11}, .majority = 11};
  EXPECT_EQ(Compare(1).why, "own ranks");
}

}  // namespace
}  // namespace psring
