#include "experiments/replica_certificate.h"

#include <string>
#include <vector>

#include "experiments/arm_result_test_util.h"
#include "gtest/gtest.h"

namespace psring {
namespace {

class ReplicaCertificateTest : public testing::Test {
 protected:
  // The digests of a rank's next steps; 0: the step was not checked.
  void Add(int rank, const std::vector<uint64_t>& digests) {
    if (records_.steps.size() <= static_cast<size_t>(rank)) {
      records_.steps.resize(rank + 1);
    }
    for (const uint64_t digest : digests) {
      StepRecord& step = records_.steps[rank].emplace_back();
      if (digest != 0) step.set_parameter_digest(digest);
    }
  }
  Certificate Certify(JobSpec spec) {
    spec.set_steps(4);
    return CertifyReplicas(spec, records_);
  }

  ArmRecords records_;
};

TEST_F(ReplicaCertificateTest, EqualReplicasPass) {
  for (int rank = 0; rank < 3; ++rank) Add(rank, {0, 1, 2, 0});
  EXPECT_EQ(Certify(RingSpec(3)).verdict, Verdict::kPass);
  EXPECT_EQ(Certify(RingSpec(3)).why, "3 ranks equal at 2 checked steps");
}

TEST_F(ReplicaCertificateTest, UnequalReplicasFailWithTheFirstUnequalStep) {
  Add(0, {1, 2, 3, 4});
  Add(1, {1, 2, 3, 0xbad});
  Add(2, {1, 0xbad, 3, 0xbad});
  EXPECT_EQ(Certify(RingSpec(3)).verdict, Verdict::kFail);
  EXPECT_EQ(Certify(RingSpec(3)).why, "rank 2 differs from the others at step 1");
}

// Of a run that continues from step 1, the first of 3 records is of step 1.
TEST_F(ReplicaCertificateTest, ARestoredRunMakesTheStepsThatAreLeft) {
  JobSpec spec = RingSpec(2);
  for (int rank = 0; rank < 2; ++rank) {
    spec.mutable_restored()->add_next_steps(1);
    Add(rank, {1, 2, 3});
  }
  EXPECT_EQ(Certify(spec).why, "2 ranks equal at 3 checked steps");
  records_.steps[1][1].set_parameter_digest(0xbad);
  EXPECT_EQ(Certify(spec).why, "ranks 0 and 1 differ at step 2");
  records_.steps[1].pop_back();
  EXPECT_EQ(Certify(spec).why, "worker 1 made 2 steps of 3");
}

TEST_F(ReplicaCertificateTest, TensorsThatDifferAreNamed) {
  Add(0, {1, 2, 3, 4});
  Add(1, {1, 0xbad, 3, 4});
  Add(2, {1, 2, 3, 4});
  records_.tensor_digests = {{.rank = 0, .step = 1, .tensor = 1, .digest = 2},
                             {.rank = 1, .step = 1, .tensor = 1, .digest = 0xbad},
                             {.rank = 2, .step = 1, .tensor = 1, .digest = 2}};
  EXPECT_EQ(Certify(RingSpec(3)).why,
            "rank 1 differs from the others at step 1, in tensor bias");
  records_.tensor_digests.push_back({.rank = 1, .step = 1, .tensor = 0, .digest = 7});
  // Of another step.
  records_.tensor_digests.push_back({.rank = 1, .step = 2, .tensor = 2, .digest = 7});
  EXPECT_EQ(Certify(RingSpec(3)).why,
            "rank 1 differs from the others at step 1, in tensors weight and bias");
}

TEST_F(ReplicaCertificateTest, WithoutAMajorityNobodyIsBlamed) {
  Add(0, {1, 2, 3, 4});
  Add(1, {1, 0xbad, 3, 4});
  EXPECT_EQ(Certify(RingSpec(2)).why, "ranks 0 and 1 differ at step 1");
  Add(2, {1, 2, 3, 4});
  Add(3, {1, 0xbad, 3, 4});
  EXPECT_EQ(Certify(RingSpec(4)).why, "ranks 0, 1, 2 and 3 differ at step 1");
  Add(4, {1, 2, 3, 4});
  EXPECT_EQ(Certify(RingSpec(5)).why, "ranks 1 and 3 differ from the others at step 1");
}

// The ranks have not come equally far.
TEST_F(ReplicaCertificateTest, ADifferenceIsFoundInARunThatHasEndedEarly) {
  Add(0, {1, 2, 3});
  Add(1, {1, 0xbad});
  Add(2, {1, 2, 0xbad});
  const auto difference = FindReplicaDifference(RingSpec(3), records_);
  ASSERT_TRUE(difference.has_value());
  EXPECT_EQ(difference->step, 1);
  EXPECT_EQ(difference->digests, (std::vector<uint64_t>{2, 0xbad, 2}));
  EXPECT_EQ(difference->majority, 2);
  EXPECT_FALSE(FindReplicaDifference(AsyncSpec(3), records_).has_value());
  // Of a fourth nothing is known.
  EXPECT_FALSE(FindReplicaDifference(RingSpec(4), records_).has_value());
}

TEST_F(ReplicaCertificateTest, AStepThatOnlyOneRankCheckedFails) {
  Add(0, {1, 2, 3, 4});
  Add(1, {1, 0, 3, 4});
  EXPECT_EQ(Certify(ServersSpec(2, 1, Sync::RING)).verdict, Verdict::kFail);
  EXPECT_EQ(Certify(ServersSpec(2, 1, Sync::RING)).why,
            "rank 0 has checked step 1, rank 1 has not");
}

TEST_F(ReplicaCertificateTest, AWorkerWithFewerStepsFails) {
  Add(0, {1, 2, 3, 4});
  EXPECT_EQ(Certify(RingSpec(2)).why, "worker 1 made 0 steps of 4");
  Add(1, {1, 2, 3});
  EXPECT_EQ(Certify(RingSpec(2)).why, "worker 1 made 3 steps of 4");
}

TEST_F(ReplicaCertificateTest, WorkersThatNeedNotBeEqualAreNotCompared) {
  Add(0, {1, 2});
  Add(1, {3});
  for (const JobSpec& spec :
       {BackupSpec(2, 1), BoundedSpec(2, 0), AsyncSpec(2), FixedDelaySpec(2, 0)}) {
    EXPECT_EQ(Certify(spec).verdict, Verdict::kNotApplicable) << spec.arm().name();
  }
  EXPECT_EQ(Certify(BackupSpec(2, 0)).verdict, Verdict::kFail);
  EXPECT_EQ(Certify(LocalSpec()).verdict, Verdict::kNotApplicable);
}

}  // namespace
}  // namespace psring
