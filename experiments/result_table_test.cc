#include "experiments/result_table.h"

#include <limits>
#include <string>
#include <vector>

#include "absl/strings/ascii.h"
#include "absl/strings/str_cat.h"
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
  experiment.mutable_compute()->mutable_real();
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

TEST(ResultTableTest, SaysWhereARunContinuedFrom) {
  EXPECT_THAT(LinesOf(WithTarget(0)), Not(Contains(HasSubstr("restored from step"))));
  std::vector<ArmResult> arms = TwoArms();
  arms[1].restored_step = 4000;
  EXPECT_THAT(LinesOf(WithTarget(0), arms), Contains("restored from step - 4,000"));
}

TEST(ResultTableTest, WhatGradientsAreOnTheWireHasRowsWhereItIsNotFp32) {
  EXPECT_THAT(LinesOf(WithTarget(0)),
              AllOf(Contains("gradients on the wire bf16 -"),
                    Contains("drift: mean / max 0.195 % / 0.391 % -"),
                    Contains("final loss over fp32's -0.0625 -")));
  std::vector<ArmResult> fp32 = TwoArms();
  fp32[0].wire = {};
  EXPECT_THAT(LinesOf(WithTarget(0), fp32),
              Each(Not(HasSubstr("gradients on the wire"))));
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

TEST(ResultTableTest, MemoryOfAWorker) {
  EXPECT_THAT(LinesOf(WithTarget(0)),
              AllOf(Contains("memory in bytes, at most parameters gradients optimizer "
                             "state other budget of these resident"),
                    Contains("servers / worker 0 40 0 54 104 1,000")));
}

TEST(ResultTableTest, OfManyProcessesThoseWithTheSameTrafficShareARow) {
  ArmResult arm = TwoArms()[1];
  for (int i = 0; i < 25; ++i) {
    arm.endpoints.push_back({.name = i < 24 ? absl::StrCat("worker ", i) : "server 0",
                             .role = i < 24 ? "worker" : "server",
                             .steps = 1,
                             .payload_out = 1024,
                             .payload_in = 1024});
  }
  EXPECT_THAT(LinesOf(WithTarget(0), {arm}),
              AllOf(Contains("local / worker 0 to 23 1,024 0 1,024 0 1.0 1.0"),
                    Contains("local / server 0 1,024 0 1,024 0 1.0 1.0")));
  arm.endpoints[1].payload_in = 1023;
  EXPECT_THAT(LinesOf(WithTarget(0), {arm}),
              AllOf(Contains("local / worker 0 1,024 0 1,024 0 1.0 1.0"),
                    Contains("local / worker 1 1,024 0 1,023 0 1.0 1.0"),
                    Contains("local / worker 2 to 23 1,024 0 1,024 0 1.0 1.0")));
  arm.endpoints.pop_back();
  EXPECT_THAT(LinesOf(WithTarget(0), {arm}),
              Contains("local / worker 23 1,024 0 1,024 0 1.0 1.0"));
}

TEST(ResultTableTest, WaitingStalenessAndContributions) {
  EXPECT_THAT(
      LinesOf(WithTarget(0)),
      AllOf(Contains("exposed, share of all time 75.0 % 0.0 %"),
            Contains("+ exposed 0.400 0.000"), Contains("= not ready here 0.050 0.000"),
            Contains("+ peer late 0.200 0.000"), Contains("+ on the wire 0.100 0.000"),
            Contains("+ working 0.050 0.000"), Contains("peer late 62.5 % -"),
            Contains("longest for worker 1, 50.0 % -"),
            Contains("first launch, share of backward 25.0 % -"),
            Contains("overlap ratio 37.5 % -"),
            Contains("arrival skew ms: mean 0.250 (clocks within 0.062) -"),
            Contains("last to be ready worker 1, 93.8 % of buckets -"),
            Contains("verdict reached target, void: processors finished"),
            Contains("staleness: mean / max 1.50 / 2 -"),
            Contains("contributions dropped 512 (25.0 %) -"),
            Contains("server imbalance: max / mean 1.50 -"),
            Contains("made by worker 0 1536 -"), Contains("made by worker 1 514 -"),
            Contains("staleness of contributions 0 1 2"),
            Contains("servers 17 % ▁ 17 % ▁ 67 % ▅"),
            Contains("buckets skipped, not finite 8 0")));
}

TEST(ResultTableTest, ImbalanceHasARowWhereServersAreUneven) {
  std::vector<ArmResult> arms = TwoArms();
  arms[0].server_imbalance = 1.004;
  EXPECT_THAT(LinesOf(WithTarget(0), arms), Each(Not(HasSubstr("imbalance"))));
  arms[0].server_imbalance = 1.006;
  EXPECT_THAT(LinesOf(WithTarget(0), arms),
              Contains("server imbalance: max / mean 1.01 -"));
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
    if (seed != 5) run.validity = Validity{};
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
            Contains("verdict reached target 2 of 3, did not reach 1 of 3, void 1 of 3: "
                     "processors"),
            Contains("made by worker 1 514"),
            Contains("replica FAIL servers, seed 6: 2 ranks differ"),
            Contains("traffic FAIL servers, seed 4: worker 0 received too little"),
            Contains("consistency PASS servers, 3 of 3 seeds: counted once"),
            Each(Not(HasSubstr("digest")))));
}

TEST(ResultTableTest, SaysHowComputingWasAndHowOftenItWasLate) {
  EXPECT_THAT(LinesOf(WithTarget(0)),
              AllOf(Contains("compute: real"), Each(Not(HasSubstr("later")))));
  Experiment experiment = WithTarget(0);
  experiment.mutable_compute()->mutable_padded()->set_step_ms(20);
  EXPECT_THAT(LinesOf(experiment),
              AllOf(Contains("compute: padded to 20 ms"),
                    Contains("steps later than compute wants 25.0 % 0.0 %"),
                    Contains("final training loss 0.1235 0.0000")));
}

TEST(ResultTableTest, WhatLearnsNothingHasNoLossAndNoAccuracy) {
  Experiment experiment = WithTarget(0);
  experiment.mutable_compute()->mutable_emulated()->set_forward_ms(5);
  ArmResult arm = TwoArms()[1];
  arm.learns = false;
  EXPECT_THAT(LinesOf(experiment, {arm}),
              AllOf(Contains("compute: emulated, 5 ms forward and 0 ms backward; made-up "
                             "gradients, no loss and no accuracy"),
                    Each(AllOf(Not(HasSubstr("training loss")),
                               Not(HasSubstr("test accuracy"))))));
}

TEST(ResultTableTest, CertificatesSayWhy) {
  EXPECT_THAT(LinesOf(WithTarget(0)),
              AllOf(Contains("replica PASS servers: 2 ranks equal"),
                    Contains("traffic FAIL servers: worker 0 received too little"),
                    Contains("replica not applicable local:"),
                    Contains("traffic not applicable local:"),
                    Contains("memory PASS servers: as budgeted"),
                    Contains("consistency PASS servers: counted once"),
                    Contains("consistency not applicable local:")));
}

TEST(ResultTableTest, CertificatesOfManyArmsShareLines) {
  std::vector<ArmResult> runs;
  for (const char* name : {"a", "b", "c", "d", "e"}) {
    ArmResult run = FullArmResult();
    run.name = name;
    runs.push_back(run);
  }
  runs[1].replica.verdict = Verdict::kFail;
  runs[3].replica.why = "3 ranks equal";
  EXPECT_THAT(LinesOf(WithTarget(0), runs),
              AllOf(Contains("replica PASS a, c, e: 2 ranks equal"),
                    Contains("replica FAIL b: 2 ranks equal"),
                    Contains("replica PASS d: 3 ranks equal"),
                    Contains("consistency PASS a, b, c, d, e: counted once")));
  runs.pop_back();
  EXPECT_THAT(LinesOf(WithTarget(0), runs), Contains("replica PASS c: 2 ranks equal"));
}

}  // namespace
}  // namespace psring
