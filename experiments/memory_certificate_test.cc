#include "experiments/memory_certificate.h"

#include <string>

#include "experiments/arm_result_test_util.h"
#include "gtest/gtest.h"

namespace psring {
namespace {

// Two workers and a server of 10 parameters; the optimizer has momentum.
class MemoryCertificateTest : public testing::Test {
 protected:
  MemoryCertificateTest() : spec_(ServersSpec(2, 1, Sync::RING)) {
    spec_.mutable_experiment()
        ->mutable_training()
        ->mutable_optimizer()
        ->mutable_sgd()
        ->set_momentum(0.5f);
    for (const char* worker : {"worker 0", "worker 1"}) {
      records_.memory[worker] = {
          {"parameters", 40}, {"gradients", 40}, {"resident", 1000}};
    }
    records_.memory["server 0"] = {{"parameters", 40},
                                   {"optimizer state", 40},
                                   {"contributions", 60},
                                   {"older versions", 80},
                                   {"resident", 2000}};
  }
  Certificate Certify() const {
    return CertifyMemory(MemoryOf(spec_, PlanJob(spec_), records_));
  }
  void ExpectFail(const std::string& why) const {
    EXPECT_EQ(Certify().verdict, Verdict::kFail);
    EXPECT_EQ(Certify().why, why);
  }

  JobSpec spec_;
  ArmRecords records_;
};

TEST_F(MemoryCertificateTest, WhatIsAsBudgetedPasses) {
  EXPECT_EQ(Certify().verdict, Verdict::kPass);
  EXPECT_EQ(Certify().why,
            "parameters, gradients, optimizer state equal the budget in every process; "
            "server 0 has had 60 bytes of contributions, its budget is at most 80; "
            "server 0 has had 80 bytes of older versions, its budget is at most 80");
}

TEST_F(MemoryCertificateTest, WithoutServersNothingIsBounded) {
  spec_ = RingSpec(2);
  spec_.mutable_experiment()->mutable_training()->mutable_optimizer()->mutable_sgd();
  EXPECT_EQ(Certify().why,
            "parameters, gradients, optimizer state equal the budget in every process");
}

TEST_F(MemoryCertificateTest, AByteTooManyOrTooFewFails) {
  records_.memory["worker 1"]["gradients"] = 41;
  ExpectFail("worker 1 has had 41 bytes of gradients, its budget is 40");
  records_.memory["worker 1"]["gradients"] = 39;
  ExpectFail("worker 1 has had 39 bytes of gradients, its budget is 40");
}

TEST_F(MemoryCertificateTest, WhatIsBoundedMayBeLessAndNotMore) {
  records_.memory["server 0"]["contributions"] = 0;
  EXPECT_EQ(Certify().verdict, Verdict::kPass);
  records_.memory["server 0"]["contributions"] = 81;
  ExpectFail("server 0 has had 81 bytes of contributions, its budget is at most 80");
}

TEST_F(MemoryCertificateTest, WhatIsNotReportedIsNotThere) {
  records_.memory["server 0"].erase("optimizer state");
  ExpectFail("server 0 has had 0 bytes of optimizer state, its budget is 40");
  records_.memory.erase("server 0");
  ExpectFail("server 0 did not report its memory");
}

TEST_F(MemoryCertificateTest, NothingMayBeWithoutABudget) {
  records_.memory["worker 0"]["spare copies"] = 4;
  ExpectFail("worker 0 has had 4 bytes of spare copies, for which there is no budget");
}

TEST_F(MemoryCertificateTest, ResidentIsShownAndNotJudged) {
  const auto processes = MemoryOf(spec_, PlanJob(spec_), records_);
  ASSERT_EQ(processes.size(), 3);
  EXPECT_EQ(processes[2].name, "server 0");
  EXPECT_EQ(processes[2].role, "server");
  EXPECT_EQ(processes[2].resident, 2000);
  records_.memory["server 0"].erase("resident");
  EXPECT_EQ(Certify().verdict, Verdict::kPass);
}

}  // namespace
}  // namespace psring
