#include "experiments/inject_config.h"

#include <string>
#include <vector>

#include "common/status_matchers.h"
#include "experiments/arm_result_test_util.h"
#include "gtest/gtest.h"

namespace psring {
namespace {

struct BadFlips {
  std::vector<std::string> overrides;
  std::string error;
};

// Of an experiment of 8 steps, with 2 ranks.
absl::Status Check(const std::vector<std::string>& overrides) {
  Experiment experiment;
  FieldOrigins origins("file");
  EXPECT_OK(ReadText("training { steps: 8 }", &experiment, &origins));
  for (const std::string& assignment : overrides) {
    EXPECT_OK(ApplyOverride(assignment, &experiment, &origins));
  }
  return CheckFlips(experiment, /*ranks=*/2, origins);
}

TEST(CheckFlipsTest, WhatIsWrongAndWhatIsAllowed) {
  const std::vector<BadFlips> cases = {
      {{"inject.flip_bit=[{rank: 2}]"},
       "inject.flip_bit[0].rank: is 2; allowed: 0 to 1, the ranks that all arms have"},
      {{"inject.flip_bit=[{rank: -1}]"},
       "inject.flip_bit[0].rank: is -1; allowed: 0 to 1, the ranks that all arms have"},
      {{"inject.flip_bit=[{step: 7}, {step: 8}]"},
       "inject.flip_bit[1].step: is 8; allowed: 0 to 7, the steps of the run"},
      {{"inject.flip_bit=[{step: -1}]"},
       "inject.flip_bit[0].step: is -1; allowed: 0 to 7, the steps of the run"},
      {{"training.epochs=1", "inject.flip_bit=[{step: -1}]"},
       "inject.flip_bit[0].step: is -1; allowed: at least 0"},
      {{"inject.flip_bit=[{element: -1}]"},
       "inject.flip_bit[0].element: is -1; allowed: at least 0"},
      {{"inject.flip_bit=[{bit: 32}]"},
       "inject.flip_bit[0].bit: is 32; allowed: 0 to 31"},
      {{"inject.flip_bit=[{bit: -1}]"},
       "inject.flip_bit[0].bit: is -1; allowed: 0 to 31"},
      {{"inject.flip_bit=[{rank: 1}, {}, {rank: 1}]"},
       "inject.flip_bit[2]: undoes inject.flip_bit[0]; allowed: each bit once in a step "
       "of a rank"},
  };
  for (const BadFlips& bad : cases) {
    EXPECT_THAT(Check(bad.overrides),
                StatusIs(absl::StatusCode::kInvalidArgument,
                         "--set " + bad.overrides.back() + ": " + bad.error));
  }
  EXPECT_OK(
      Check({"inject.flip_bit=[{rank: 1 step: 7 element: 1000 bit: 31}, "
             "{rank: 1 step: 7 element: 1000 bit: 30}, {rank: 0}]"}));
  EXPECT_OK(Check({"training.epochs=1", "inject.flip_bit=[{step: 1000}]"}));
}

// The job has 2 steps and 10 parameters.
TEST(CheckFlipsTest, OfAJob) {
  JobSpec spec = RingSpec(2);
  FlipBit& flip = *spec.mutable_experiment()->mutable_inject()->add_flip_bit();
  flip.set_step(1);
  flip.set_element(9);
  EXPECT_OK(CheckFlips(spec));
  flip.set_element(10);
  EXPECT_THAT(CheckFlips(spec),
              StatusIs(absl::StatusCode::kInvalidArgument,
                       "inject.flip_bit[0].element: is 10; allowed: 0 to 9, the "
                       "parameters of the model"));
  flip.set_step(2);
  EXPECT_THAT(CheckFlips(spec), StatusIs(absl::StatusCode::kInvalidArgument,
                                         "inject.flip_bit[0].step: is 2; allowed: 0 to "
                                         "1, the steps of the run"));
}

// With batches that are joined, the others may have a step more in each epoch.
TEST(CheckFlipsTest, ALocalArmMayHaveFewerSteps) {
  JobSpec spec = LocalSpec();
  FlipBit& flip = *spec.mutable_experiment()->mutable_inject()->add_flip_bit();
  flip.set_step(2);
  EXPECT_OK(CheckFlips(spec));
  flip.set_element(10);
  EXPECT_THAT(CheckFlips(spec),
              StatusIs(absl::StatusCode::kInvalidArgument,
                       "inject.flip_bit[0].element: is 10; allowed: 0 to 9, the "
                       "parameters of the model"));
}

TEST(DescribeFlipTest, InWords) {
  FlipBit flip;
  flip.set_bit(31);
  flip.set_element(5);
  flip.set_step(7);
  EXPECT_EQ(DescribeFlip(flip), "bit 31 of parameter 5 flips after step 7");
}

}  // namespace
}  // namespace psring
