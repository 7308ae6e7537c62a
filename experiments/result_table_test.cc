#include "experiments/result_table.h"

#include <string>
#include <vector>

#include "absl/strings/ascii.h"
#include "absl/strings/str_split.h"
#include "experiments/arm_result_test_util.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"

namespace psring {
namespace {

using testing::AllOf;
using testing::Contains;
using testing::Each;
using testing::HasSubstr;
using testing::Not;

Experiment WithTarget(double target) {
  Experiment experiment;
  experiment.mutable_training()->set_target_accuracy(target);
  return experiment;
}

// The second arm has only what every arm has.
std::vector<ArmResult> TwoArms() {
  ArmResult local;
  local.name = "local";
  local.steps = 10;
  local.workers = 1;
  return {FullArmResult(), local};
}

// Lines with the blanks between columns made one.
std::vector<std::string> LinesOf(const Experiment& experiment) {
  std::vector<std::string> lines =
      absl::StrSplit(ResultTable(experiment, TwoArms()), '\n');
  for (std::string& line : lines) absl::RemoveExtraAsciiWhitespace(&line);
  return lines;
}

TEST(ResultTableTest, ArmsSideBySide) {
  EXPECT_THAT(LinesOf(WithTarget(0)),
              AllOf(Contains("servers local"), Contains("workers + servers 2 + 1 1 + 0"),
                    Contains("steps 1,024 10"), Contains("samples/s 12,345 0"),
                    Contains("final training loss 0.1235 0.0000"),
                    Contains("test accuracy 87.65 % -"),
                    Contains("parameter digest 0000000000000abc -")));
}

TEST(ResultTableTest, TimesOfAStepAndItsParts) {
  EXPECT_THAT(
      LinesOf(WithTarget(0)),
      AllOf(Contains("step ms: p50 1.500 0.000"), Contains("p99 9.000 0.000"),
            Contains("mean 2.100 0.000"), Contains("= data 0.100 0.000"),
            Contains("+ forward 0.200 0.000"), Contains("+ backward 0.300 0.000"),
            Contains("+ exposed 0.400 0.000"), Contains("+ optimizer 0.500 0.000"),
            Contains("+ unaccounted 0.600 0.000")));
}

TEST(ResultTableTest, TheTargetHasARowWhereThereIsOne) {
  EXPECT_THAT(LinesOf(WithTarget(0.875)), Contains("seconds to 87.5 % 2.00 never"));
  EXPECT_THAT(LinesOf(WithTarget(0)), Each(Not(HasSubstr("seconds to"))));
}

TEST(ResultTableTest, TrafficBesideItsFormulaAndPerStep) {
  EXPECT_THAT(
      LinesOf(WithTarget(0)),
      AllOf(Contains("payload bytes, all steps sent formula received formula KiB/step "
                     "out KiB/step in"),
            Contains("servers / worker 0 4,194,304 5,242,880 2,097,152 3,145,728 4.0 "
                     "2.0")));
}

TEST(ResultTableTest, CertificatesSayWhy) {
  EXPECT_THAT(LinesOf(WithTarget(0)),
              AllOf(Contains("replica PASS servers: 2 ranks equal"),
                    Contains("traffic FAIL servers: worker 0 received too little"),
                    Contains("replica not applicable local:"),
                    Contains("traffic not applicable local:")));
}

}  // namespace
}  // namespace psring
