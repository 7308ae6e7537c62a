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
  EXPECT_EQ(Certify(RingSpec(3)).why,
            "after step 1 worker 0 has digest 0000000000000002, worker 2 "
            "0000000000000bad");
}

TEST_F(ReplicaCertificateTest, AStepThatOnlyOneRankCheckedFails) {
  Add(0, {1, 2, 3, 4});
  Add(1, {1, 0, 3, 4});
  EXPECT_EQ(Certify(ServersSpec(2, 1, Sync::RING)).verdict, Verdict::kFail);
  EXPECT_EQ(Certify(ServersSpec(2, 1, Sync::RING)).why,
            "after step 1 worker 0 has digest 0000000000000002, worker 1 "
            "0000000000000000");
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
