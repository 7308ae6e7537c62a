#include "experiments/consistency_certificate.h"

#include <string>
#include <vector>

#include "experiments/arm_result_test_util.h"
#include "gtest/gtest.h"

namespace psring {
namespace {

// 3 workers and 2 slots, 5 steps: 15 contributions to each slot.
constexpr int kWorkers = 3;
constexpr int64_t kSteps = 5;

class ConsistencyCertificateTest : public testing::Test {
 protected:
  static JobSpec Make(JobSpec spec) {
    spec.set_steps(kSteps);
    return spec;
  }
  // Both slots alike, each worker with its own number of contributions, all applied.
  void Add(std::vector<int64_t> made, int64_t contributions_per_update) {
    for (const int slot : {0, 1}) {
      SlotTotals& totals = records_.slots[slot];
      int64_t sum = 0;
      for (int rank = 0; rank < kWorkers; ++rank) {
        totals.workers[rank].made = totals.workers[rank].steps = made[rank];
        sum += made[rank];
      }
      const int64_t updates = sum / contributions_per_update;
      totals.updates[contributions_per_update] = {
          .updates = updates, .first_version = 0, .last_version = updates - 1};
    }
  }
  void AddStaleness(int rank, int64_t staleness, int64_t count,
                    int64_t of_version_0 = 0) {
    records_.staleness[rank][staleness] = {.count = count, .of_version_0 = of_version_0};
  }
  // What the certificate says; "FAIL: " in front of what is wrong.
  std::string Certify(const JobSpec& spec) {
    const Certificate certificate = CertifyConsistency(Make(spec), records_);
    const bool passes = certificate.verdict == Verdict::kPass;
    return passes ? certificate.why
                  : std::string(ToString(certificate.verdict)) + ": " + certificate.why;
  }

  ArmRecords records_;
};

TEST_F(ConsistencyCertificateTest, Sync) {
  Add({5, 5, 5}, 3);
  AddStaleness(0, 0, 10, 2);
  EXPECT_EQ(Certify(ServersSpec(kWorkers, 1, Sync::RANK)),
            "all 15 contributions counted once in every slot, staleness 0, clock lag 0 "
            "of 0");
  AddStaleness(1, 1, 1);
  EXPECT_EQ(Certify(ServersSpec(kWorkers, 1, Sync::RANK)),
            "FAIL: worker 1 has contributions of staleness 1, promised is 0");
}

TEST_F(ConsistencyCertificateTest, InLockstepNobodyMakesAnothersContributions) {
  Add({6, 5, 4}, 3);
  EXPECT_EQ(Certify(ServersSpec(kWorkers, 1, Sync::RANK)),
            "FAIL: slot 0 counted 6 contributions of worker 0 in a run of 5 steps");
}

// 2 of 5 steps had been made, so each slot was at version 2.
TEST_F(ConsistencyCertificateTest, ARestoredRunIsHeldToWhatWasLeft) {
  JobSpec spec = ServersSpec(kWorkers, 1, Sync::RANK);
  spec.mutable_restored()->set_version(2);
  for (int rank = 0; rank < kWorkers; ++rank) spec.mutable_restored()->add_next_steps(2);
  Add({3, 3, 3}, 3);
  EXPECT_EQ(Certify(spec), "FAIL: slot 0 has 3 updates for the versions up to 3 from 2");
  for (const int slot : {0, 1}) {
    records_.slots[slot].updates[3].first_version = 2;
    records_.slots[slot].updates[3].last_version = 4;
  }
  EXPECT_EQ(Certify(spec),
            "all 9 contributions counted once in every slot, staleness 0, clock lag 0 "
            "of 0");
  records_.slots[1].workers[2].made = records_.slots[1].workers[2].steps = 5;
  EXPECT_EQ(Certify(spec),
            "FAIL: slot 1 counted 5 contributions of worker 2 in a run of 3 steps");
}

TEST_F(ConsistencyCertificateTest, ASlotThatCountedLessIsNamed) {
  Add({6, 5, 4}, 1);
  records_.slots[1].workers[2].made = records_.slots[1].workers[2].steps = 3;
  EXPECT_EQ(Certify(AsyncSpec(kWorkers)), "FAIL: slot 1 counted 14 contributions of 15");
  records_.slots.erase(1);
  EXPECT_EQ(Certify(AsyncSpec(kWorkers)), "FAIL: slot 1 counted 0 contributions of 15");
}

TEST_F(ConsistencyCertificateTest, AContributionThatIsCountedTwiceIsFound) {
  Add({6, 5, 4}, 1);
  EXPECT_EQ(Certify(AsyncSpec(kWorkers)),
            "all 15 contributions counted once in every slot");
  records_.slots[0].workers[1].steps = 4;
  EXPECT_EQ(Certify(AsyncSpec(kWorkers)),
            "FAIL: slot 0 counted 5 contributions of worker 1 to 4 steps");
}

TEST_F(ConsistencyCertificateTest, AVersionThatNobodyMadeIsFound) {
  Add({6, 5, 4}, 1);
  records_.slots[1].updates[1].last_version = 15;
  EXPECT_EQ(Certify(AsyncSpec(kWorkers)),
            "FAIL: slot 1 has 15 updates for the versions up to 16");
}

TEST_F(ConsistencyCertificateTest, TwoContributionsInOneUpdateAreFound) {
  Add({6, 5, 4}, 1);
  records_.slots[0].updates[1] = {.updates = 13, .first_version = 0, .last_version = 13};
  records_.slots[0].updates[2] = {.updates = 1, .first_version = 7, .last_version = 7};
  EXPECT_EQ(Certify(AsyncSpec(kWorkers)),
            "FAIL: slot 0 was at version 7 when 2 contributions were applied, and not 1");
}

// Rounds of two of three, until workers have left.
TEST_F(ConsistencyCertificateTest, Backup) {
  Add({6, 6, 3}, 2);
  for (const int slot : {0, 1}) {
    records_.slots[slot].workers[2].late = 2;
    records_.slots[slot].updates[2] = {
        .updates = 6, .first_version = 0, .last_version = 5};
    records_.slots[slot].updates[1] = {
        .updates = 1, .first_version = 6, .last_version = 6};
  }
  AddStaleness(0, 0, 13);
  EXPECT_EQ(Certify(BackupSpec(kWorkers, 1)),
            "all 15 contributions counted once in every slot, staleness 0");
  // 7 versions; one of the first 4 may not lack a contribution.
  records_.slots[1].updates[1].first_version = 4;
  EXPECT_EQ(Certify(BackupSpec(kWorkers, 1)).substr(0, 3), "all");
  records_.slots[1].updates[1].first_version = 3;
  EXPECT_EQ(Certify(BackupSpec(kWorkers, 1)),
            "FAIL: slot 1 was at version 3 when 1 contributions were applied, and not 2");
}

TEST_F(ConsistencyCertificateTest, SyncMayLackNoContributionEvenAtItsEnd) {
  Add({5, 5, 5}, 3);
  records_.slots[0].updates[3].updates = 4;
  records_.slots[0].updates[3].last_version = 3;
  records_.slots[0].updates[2] = {.updates = 1, .first_version = 4, .last_version = 4};
  EXPECT_EQ(Certify(ServersSpec(kWorkers, 1, Sync::RING)),
            "FAIL: slot 0 was at version 4 when 2 contributions were applied, and not 3");
}

TEST_F(ConsistencyCertificateTest, OnlySomeModesMayDrop) {
  Add({6, 5, 4}, 1);
  records_.slots[0].workers[1].stale = 1;
  records_.slots[0].updates[1] = {.updates = 14, .first_version = 0, .last_version = 13};
  EXPECT_EQ(Certify(AsyncSpec(kWorkers)),
            "FAIL: slot 0 dropped 1 contributions of worker 1, and this mode drops none");
  JobSpec spec = AsyncSpec(kWorkers);
  spec.mutable_arm()->mutable_parameter_server()->mutable_stale_updates()->set_drop_above(
      3);
  EXPECT_EQ(Certify(spec), "all 15 contributions counted once in every slot");
}

TEST_F(ConsistencyCertificateTest, TheBoundIsOnTheClockLag) {
  Add({6, 5, 4}, 1);
  AddStaleness(0, 7, 30);
  records_.slots[1].workers[2].clock_lag_max = 2;
  EXPECT_EQ(Certify(BoundedSpec(kWorkers, 2)),
            "all 15 contributions counted once in every slot, clock lag 2 of 2");
  EXPECT_EQ(Certify(BoundedSpec(kWorkers, 1)),
            "FAIL: slot 1 let worker 2 be 2 steps ahead of the slowest, more than 1");
}

// Of a delay of 4, the first contributions have less, because version 0 is the oldest.
TEST_F(ConsistencyCertificateTest, FixedDelayIsTheSameForEveryContribution) {
  Add({5, 5, 5}, 1);
  AddStaleness(0, 0, 2, 2);
  AddStaleness(0, 3, 2, 2);
  AddStaleness(0, 4, 6, 2);
  AddStaleness(1, 4, 10);
  const JobSpec spec = FixedDelaySpec(kWorkers, 4);
  EXPECT_EQ(Certify(spec),
            "all 15 contributions counted once in every slot, staleness 4");
  AddStaleness(1, 3, 2, 1);
  EXPECT_EQ(Certify(spec),
            "FAIL: worker 1 has contributions of staleness 3, promised is 4");
  AddStaleness(1, 3, 2, 2);
  AddStaleness(1, 5, 1, 1);
  EXPECT_EQ(Certify(spec),
            "FAIL: worker 1 has contributions of staleness 5, promised is 4");
}

TEST_F(ConsistencyCertificateTest, ArmsWithoutServersPromiseNothing) {
  EXPECT_EQ(Certify(RingSpec(kWorkers)), "not applicable: no servers");
  EXPECT_EQ(Certify(LocalSpec()), "not applicable: no servers");
}

}  // namespace
}  // namespace psring
