#include "experiments/result_table.h"

#include <limits>
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
std::vector<std::string> LinesOf(const Experiment& experiment,
                                 const std::vector<ArmResult>& runs = TwoArms()) {
  std::vector<std::string> lines = absl::StrSplit(ResultTable(experiment, runs), '\n');
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

TEST(ResultTableTest, LinksOfHosts) {
  EXPECT_THAT(
      LinesOf(WithTarget(0)),
      AllOf(
          Contains("bytes on each link, whole run formula payload + start, snapshots + "
                   "framing + headers + rest = kernel packets resent dropped"),
          Contains("servers / worker 0 out 5,242,880 20 10 3 66 1 100 1 4 5"),
          Contains("busiest link Mbit/s bytes/step of moving time of step hot-spot "
                   "factor longest queue dropped idle CPU"),
          Contains("servers / worker 0 out 8 2 25.0 % 12.5 % 1.50 1,514 5 6.2 %"),
          Contains("note: servers: the processors were idle 6.2 % of the time: they, and "
                   "not the links, may have set its times")));
  EXPECT_THAT(LinesOf(WithTarget(0), {TwoArms()[1]}), Each(Not(HasSubstr("link"))));
}

TEST(ResultTableTest, WaitingStalenessAndContributions) {
  EXPECT_THAT(
      LinesOf(WithTarget(0)),
      AllOf(Contains("exposed, share of all time 75.0 % 0.0 %"),
            Contains("longest for worker 1, 50.0 % -"),
            Contains("verdict reached target finished"),
            Contains("staleness: mean / max 1.50 / 2 -"),
            Contains("contributions dropped 512 (25.0 %) -"),
            Contains("made by worker 0 1536 -"), Contains("made by worker 1 514 -"),
            Contains("staleness of contributions 0 1 2"),
            Contains("servers 17 % ▁ 17 % ▁ 67 % ▅"),
            Contains("buckets skipped, not finite 8 0")));
}

TEST(ResultTableTest, WithoutServersThereIsNoWordOfContributions) {
  EXPECT_THAT(LinesOf(WithTarget(0), {TwoArms()[1]}),
              AllOf(Each(Not(HasSubstr("contributions"))),
                    Each(Not(HasSubstr("skipped"))), Each(Not(HasSubstr("staleness"))),
                    Contains("exposed, share of all time 0.0 %")));
}

TEST(ResultTableTest, ManyWorkersHaveNoRowEach) {
  std::vector<ArmResult> runs = TwoArms();
  runs[0].contributions.workers.resize(9, {.made = 700});
  EXPECT_THAT(LinesOf(WithTarget(0), runs),
              Contains("made by each worker 514 to 1536 -"));
}

TEST(ResultTableTest, ADivergedArmHasARow) {
  ArmResult arm = TwoArms()[1];
  arm.convergence = Convergence::kDiverged;
  arm.final_loss = std::numeric_limits<double>::quiet_NaN();
  arm.error = "worker 0: bias[2] is nan";
  arm.endpoints = {{.name = "worker 0", .role = "worker"}};
  EXPECT_THAT(
      LinesOf(WithTarget(0.5), {arm}),
      AllOf(Contains("verdict diverged"), Contains("final training loss not finite"),
            Contains("test accuracy -"), Contains("seconds to 50 % never"),
            Each(Not(HasSubstr("payload")))));
}

TEST(ResultTableTest, SeveralSeedsShowMedianAndRange) {
  std::vector<ArmResult> runs;
  for (const uint64_t seed : {4, 5, 6}) {
    ArmResult run = TwoArms()[0];
    run.seed = seed;
    run.samples_per_second = 1000.0 * static_cast<double>(seed * seed);
    run.step_ms.data = 0.1 * static_cast<double>(seed * seed);
    if (seed == 6) {
      run.convergence = Convergence::kDidNotReach;
      run.time_to_target_seconds.reset();
      run.traffic.verdict = Verdict::kPass;
      run.replica = {.verdict = Verdict::kFail, .why = "2 ranks differ"};
    }
    runs.push_back(run);
  }
  EXPECT_THAT(
      LinesOf(WithTarget(0.5), runs),
      AllOf(Contains("seeds 4 to 6"), Contains("samples/s 25,000 (16,000 to 36,000)"),
            Contains("= data 2.567"), Contains("final training loss 0.1235"),
            Contains("test accuracy 87.65 %"),
            Contains("seconds to 50 % 2.00 (2.00 to never)"),
            Contains("verdict reached target 2 of 3, did not reach 1 of 3"),
            Contains("made by worker 1 514"),
            Contains("replica FAIL servers, seed 6: 2 ranks differ"),
            Contains("traffic FAIL servers, seed 4: worker 0 received too little"),
            Contains("consistency PASS servers, 3 of 3 seeds: counted once"),
            Each(Not(HasSubstr("digest")))));
}

TEST(ResultTableTest, CertificatesSayWhy) {
  EXPECT_THAT(LinesOf(WithTarget(0)),
              AllOf(Contains("replica PASS servers: 2 ranks equal"),
                    Contains("traffic FAIL servers: worker 0 received too little"),
                    Contains("replica not applicable local:"),
                    Contains("traffic not applicable local:"),
                    Contains("consistency PASS servers: counted once"),
                    Contains("consistency not applicable local:")));
}

}  // namespace
}  // namespace psring
