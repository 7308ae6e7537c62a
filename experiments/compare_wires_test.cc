#include "experiments/compare_wires.h"

#include <limits>
#include <string>
#include <vector>

#include "experiments/arm_result_test_util.h"
#include "gtest/gtest.h"

namespace psring {
namespace {

JobSpec With(JobSpec spec, const std::string& name, bool bf16) {
  spec.mutable_arm()->set_name(name);
  spec.set_job("job/" + name);
  if (bf16) {
    spec.mutable_arm()->mutable_wire()->mutable_bf16();
  } else {
    spec.mutable_arm()->mutable_wire()->mutable_fp32();
  }
  return spec;
}

class CompareWiresTest : public testing::Test {
 protected:
  ArmResult& Add(const JobSpec& spec, double final_loss) {
    specs_.push_back(spec);
    ArmResult& arm = arms_.emplace_back();
    arm.name = spec.arm().name();
    arm.wire.type = spec.arm().wire().has_bf16() ? "bf16" : "fp32";
    arm.final_loss = final_loss;
    return arm;
  }
  // Of the first arm.
  const WireUse& Compare() {
    CompareWires(specs_, &arms_);
    return arms_[0].wire;
  }

  std::vector<JobSpec> specs_;
  std::vector<ArmResult> arms_;
};

TEST_F(CompareWiresTest, ComparesWithTheArmThatDiffersInItsWireAlone) {
  Add(With(RingSpec(3), "short", true), 0.75);
  Add(With(ServersSpec(3, 2, Sync::RING), "servers", false), 0.1);
  Add(With(RingSpec(2), "two", false), 0.2);
  JobSpec seed = With(RingSpec(3), "seed", false);
  seed.mutable_experiment()->mutable_training()->set_seed(9);
  Add(seed, 0.3);
  Add(With(RingSpec(3), "other", true), 0.4);
  Add(With(RingSpec(3), "long", false), 0.5);
  EXPECT_EQ(Compare().fp32_arm, "long");
  EXPECT_EQ(arms_[0].wire.loss_over_fp32, 0.25);
  EXPECT_EQ(arms_[5].wire.fp32_arm, "");
  EXPECT_FALSE(arms_[5].wire.loss_over_fp32.has_value());
}

TEST_F(CompareWiresTest, OfRunsWithoutAFinalLossNothingIsSaid) {
  Add(With(RingSpec(3), "short", true), 0.75);
  Add(With(RingSpec(3), "broken", false), 0.5).error = "lost";
  EXPECT_EQ(Compare().fp32_arm, "");
  Add(With(RingSpec(3), "long", false), 0.5);
  arms_[0].learns = false;
  EXPECT_EQ(Compare().fp32_arm, "");
  arms_[0].learns = true;
  arms_[0].error = "lost";
  EXPECT_EQ(Compare().fp32_arm, "");
  arms_[0].error = "";
  EXPECT_EQ(Compare().fp32_arm, "long");
}

}  // namespace
}  // namespace psring
