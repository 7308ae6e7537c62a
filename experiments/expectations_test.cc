#include "experiments/expectations.h"

#include <string>
#include <vector>

#include "absl/strings/str_cat.h"
#include "common/errors.h"
#include "common/status_matchers.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"

namespace psring {
namespace {

using testing::Eq;

// Arms a, b, c and d, and on the lines below what is expected.
Experiment Parse(const std::string& expect, FieldOrigins* origins) {
  Experiment experiment;
  EXPECT_OK(ReadText(absl::StrCat("arms { name: 'a' } arms { name: 'b' } arms { name: "
                                  "'c' } arms { name: 'd' }\n",
                                  "expect { ", expect, " }"),
                     &experiment, origins))
      << expect;
  return experiment;
}

absl::Status CheckSettings(const std::string& expect) {
  FieldOrigins origins("file");
  const Experiment experiment = Parse(expect, &origins);
  return CheckExpectationSettings(experiment, origins);
}

auto IsError(const std::string& text) {
  return StatusIs(absl::StatusCode::kInvalidArgument,
                  Eq(absl::StrCat("file:2: expect[0]", text)));
}

// One seed of an arm.
ArmResult RunOf(const std::string& arm, double step_ms) {
  ArmResult run;
  run.name = arm;
  run.step_ms.p50 = step_ms;
  return run;
}

// The steps of a take 10 ms, b's 20, c's 21 and d's 5.
std::vector<ArmResult> Runs() {
  return {RunOf("a", 10), RunOf("b", 20), RunOf("c", 21), RunOf("d", 5)};
}

ExpectationResult Evaluate(const std::string& expect,
                           const std::vector<ArmResult>& runs = Runs()) {
  FieldOrigins origins("file");
  const Experiment experiment = Parse(expect, &origins);
  EXPECT_OK(CheckExpectationSettings(experiment, origins));
  const std::vector<ExpectationResult> results = CheckExpectations(experiment, runs);
  EXPECT_EQ(results.size(), 1);
  return results.at(0);
}

Verdict VerdictOf(const std::string& expect) { return Evaluate(expect).verdict; }

TEST(ExpectationsTest, Monotone) {
  const ExpectationResult result =
      Evaluate("monotone { figure: 'step_ms_p50' arms: ['a', 'b', 'c'] }");
  EXPECT_EQ(result.kind, "monotone");
  EXPECT_EQ(result.figure, "step_ms_p50");
  EXPECT_EQ(result.verdict, Verdict::kPass);
  EXPECT_EQ(result.text, "step_ms_p50 increases: a 10, b 20, c 21 ms");
  const std::string figure = "monotone { figure: 'step_ms_p50' ";
  EXPECT_EQ(VerdictOf(figure + "arms: ['a', 'c', 'b'] }"), Verdict::kFail);
  EXPECT_EQ(VerdictOf(figure + "arms: ['a', 'a'] }"), Verdict::kFail) << "it stays";
  EXPECT_EQ(VerdictOf(figure + "arms: ['c', 'b', 'd'] direction: DECREASING }"),
            Verdict::kPass);
  EXPECT_EQ(VerdictOf(figure + "arms: ['d', 'b'] direction: DECREASING }"),
            Verdict::kFail);
}

TEST(ExpectationsTest, Flat) {
  const std::string flat = "flat { figure: 'step_ms_p50' arms: ['c', 'b'] ";
  const ExpectationResult result = Evaluate(flat + "percent: 6 }");
  EXPECT_EQ(result.verdict, Verdict::kPass);
  EXPECT_EQ(result.text, "step_ms_p50 is flat within 6 %: c 21, b 20 ms");
  EXPECT_EQ(VerdictOf(flat + "percent: 4.9 }"), Verdict::kFail);
  EXPECT_EQ(VerdictOf("flat { figure: 'step_ms_p50' arms: ['a', 'a'] }"), Verdict::kPass);
}

TEST(ExpectationsTest, Ratio) {
  const std::string ratio = "ratio { figure: 'step_ms_p50' arm: 'b' over: 'a' ";
  const ExpectationResult result = Evaluate(ratio + "low: 2 high: 2 }");
  EXPECT_EQ(result.verdict, Verdict::kPass);
  EXPECT_EQ(result.text,
            "step_ms_p50 of b is 2 to 2 times that of a: it is 2 times; b 20, a 10 ms");
  EXPECT_EQ(VerdictOf(ratio + "low: 2.1 high: 3 }"), Verdict::kFail);
  EXPECT_EQ(VerdictOf(ratio + "low: 1 high: 1.9 }"), Verdict::kFail);
}

TEST(ExpectationsTest, Between) {
  const std::string between = "between { figure: 'step_ms_p50' arm: 'b' ";
  const ExpectationResult result = Evaluate(between + "low: 20 high: 20 }");
  EXPECT_EQ(result.kind, "between");
  EXPECT_EQ(result.verdict, Verdict::kPass);
  EXPECT_EQ(result.text, "step_ms_p50 is 20 to 20: b 20 ms");
  EXPECT_EQ(VerdictOf(between + "low: 20.5 high: 30 }"), Verdict::kFail);
  EXPECT_EQ(VerdictOf(between + "low: 0 high: 19.5 }"), Verdict::kFail);
  EXPECT_EQ(VerdictOf("between { figure: 'over_floor' arm: 'b' high: 9 }"),
            Verdict::kFail)
      << "b has no floor";
}

TEST(ExpectationsTest, Crossover) {
  const ExpectationResult result = Evaluate(
      "crossover { figure: 'step_ms_p50' arms: ['a', 'c'] against: ['b', 'd'] at: 1 }");
  EXPECT_EQ(result.verdict, Verdict::kPass);
  EXPECT_EQ(result.text,
            "step_ms_p50 is below before c, above from there on: a 10, c 21 ms against b "
            "20, d 5 ms");
  const std::string figure = "crossover { figure: 'step_ms_p50' ";
  EXPECT_EQ(VerdictOf(figure + "arms: ['b', 'c'] against: ['a', 'd'] at: 1 }"),
            Verdict::kFail)
      << "above from the start";
  EXPECT_EQ(VerdictOf(figure + "arms: ['a', 'd'] against: ['b', 'c'] at: 1 }"),
            Verdict::kFail)
      << "below to the end";
}

TEST(ExpectationsTest, OfSeveralSeedsTheMedianCounts) {
  std::vector<ArmResult> runs = {RunOf("a", 10), RunOf("b", 1), RunOf("b", 30),
                                 RunOf("b", 20)};
  EXPECT_EQ(Evaluate("monotone { figure: 'step_ms_p50' arms: ['a', 'b'] }", runs).text,
            "step_ms_p50 increases: a 10, b 20 ms");
}

TEST(ExpectationsTest, AnArmThatWasNotRunLeavesItOpen) {
  const ExpectationResult result =
      Evaluate("monotone { figure: 'step_ms_p50' arms: ['a', 'b'] }", {RunOf("a", 10)});
  EXPECT_EQ(result.verdict, Verdict::kNotApplicable);
  EXPECT_EQ(result.text, "step_ms_p50 increases: a 10, b none ms; not run: b");
  EXPECT_OK(StatusOf({result}));
}

TEST(ExpectationsTest, AnArmThatDidNotComeToItsEndMeetsNothing) {
  std::vector<ArmResult> runs = Runs();
  runs[1].error = "worker 0: bias[2] is nan";
  for (const char* expect :
       {"monotone { figure: 'step_ms_p50' arms: ['a', 'b'] }",
        "flat { figure: 'step_ms_p50' arms: ['a', 'b'] percent: 500 }",
        "ratio { figure: 'step_ms_p50' arm: 'a' over: 'b' high: 9 }",
        "crossover { figure: 'step_ms_p50' arms: ['a', 'c'] against: ['b', 'd'] at: 1 "
        "}"}) {
    EXPECT_EQ(Evaluate(expect, runs).verdict, Verdict::kFail) << expect;
  }
}

TEST(ExpectationsTest, AVoidArmMeetsNothingAndSaysWhy) {
  std::vector<ArmResult> runs = Runs();
  runs[1].validity = Validity{};
  const std::string monotone = "monotone { figure: 'step_ms_p50' arms: ['a', 'b'] }";
  EXPECT_EQ(Evaluate(monotone, runs).verdict, Verdict::kPass);
  runs[1].validity->kind = Validity::Kind::kCannotBeTold;
  EXPECT_EQ(Evaluate(monotone, runs).verdict, Verdict::kPass);
  // One of its runs is enough.
  runs.push_back(runs[1]);
  runs.back().validity = Validity{.kind = Validity::Kind::kVoid, .cause = "low load"};
  const ExpectationResult result = Evaluate(monotone, runs);
  EXPECT_EQ(result.verdict, Verdict::kFail);
  EXPECT_EQ(result.text, "step_ms_p50 increases: a 10, b 20 ms; b is void: low load");
  EXPECT_EQ(ExitCodeOf(StatusOf({result})), ExitCode::kCheckFailed);
  runs.erase(runs.begin());  // Arm a was not run: that comes first.
  EXPECT_EQ(Evaluate(monotone, runs).verdict, Verdict::kNotApplicable);
}

TEST(ExpectationsTest, FiguresOfLinks) {
  ArmResult run;
  run.name = "a";
  run.steps = 4;
  const auto text_of = [&](const std::string& figure) {
    return Evaluate(absl::StrCat("ratio { figure: '", figure,
                                 "' arm: 'a' over: 'a' low: 1 high: 1 }"),
                    {run})
        .text;
  };
  const std::vector<std::string> figures = {"busiest_link_utilisation",
                                            "busiest_link_bytes", "worker_link_bytes",
                                            "hot_spot_factor"};
  for (const std::string& figure : figures) {
    EXPECT_THAT(text_of(figure), testing::HasSubstr("it is none times; a none"));
  }
  run.link_usage =
      LinkUsage{.links = {{.host = "worker 0", .bytes = 4000, .utilisation = 0.25},
                          {.host = "worker 1", .bytes = 400, .utilisation = 0.75}},
                .busiest = 1,
                .hot_spot_factor = 3};
  // A server's link, and a worker's that is not known, do not count.
  run.endpoints = {{.name = "worker 0",
                    .role = "worker",
                    .steps = 4,
                    .link_out = LinkAudit{.payload = 80},
                    .link_in = LinkAudit{.payload = 40}},
                   {.name = "worker 1",
                    .role = "worker",
                    .steps = 2,
                    .link_out = LinkAudit{.payload = 20},
                    .link_in = LinkAudit{.payload = 60}},
                   {.name = "worker 2", .role = "worker", .steps = 1},
                   {.name = "server 0",
                    .role = "server",
                    .steps = 1,
                    .link_out = LinkAudit{.payload = 800},
                    .link_in = LinkAudit{.payload = 800}}};
  const char* const values[] = {"0.75", "100", "30", "3"};
  for (size_t i = 0; i < figures.size(); ++i) {
    EXPECT_THAT(text_of(figures[i]),
                testing::HasSubstr(absl::StrCat("it is 1 times; a ", values[i])));
  }
}

TEST(ExpectationsTest, EveryFigure) {
  ArmResult run;
  run.name = "a";
  run.step_ms.p50 = 1;
  run.step_ms.mean = 2;
  run.step_ms.exposed = 3;
  run.waiting.exposed = 0.25;
  run.samples_per_second = 5;
  run.endpoints.resize(3);
  run.endpoints[0].steps = 2;
  run.endpoints[0].payload_out = 8;
  run.endpoints[0].payload_in = 20'000'001;
  run.endpoints[1].steps = 1;
  run.endpoints[1].payload_out = 6;
  run.endpoints[1].payload_in = 7;
  const auto text_of = [&](const std::string& figure) {
    return Evaluate(absl::StrCat("flat { figure: '", figure,
                                 "' arms: ['a', 'a'] percent: 1 }"),
                    {run})
        .text;
  };
  EXPECT_EQ(text_of("step_ms_p50"), "step_ms_p50 is flat within 1 %: a 1, a 1 ms");
  EXPECT_EQ(text_of("step_ms_mean"), "step_ms_mean is flat within 1 %: a 2, a 2 ms");
  EXPECT_EQ(text_of("exposed_ms"), "exposed_ms is flat within 1 %: a 3, a 3 ms");
  EXPECT_EQ(text_of("server_imbalance"),
            "server_imbalance is flat within 1 %: a none, a none");
  run.server_imbalance = 1.5;
  EXPECT_EQ(text_of("server_imbalance"),
            "server_imbalance is flat within 1 %: a 1.5, a 1.5");
  EXPECT_EQ(text_of("fewest_contributions"),
            "fewest_contributions is flat within 1 %: a none, a none");
  run.contributions.workers = {{.made = 3}, {.made = 1}, {.made = 4}, {.made = 8}};
  EXPECT_EQ(text_of("fewest_contributions"),
            "fewest_contributions is flat within 1 %: a 0.25, a 0.25");
  EXPECT_EQ(text_of("most_contributions"),
            "most_contributions is flat within 1 %: a 2, a 2");
  EXPECT_EQ(text_of("exposed_share"), "exposed_share is flat within 1 %: a 0.25, a 0.25");
  EXPECT_EQ(text_of("samples_per_second"),
            "samples_per_second is flat within 1 %: a 5, a 5 /s");
  EXPECT_EQ(text_of("busiest_out_bytes"),
            "busiest_out_bytes is flat within 1 %: a 6, a 6 bytes/step");
  EXPECT_EQ(text_of("busiest_in_bytes"),
            "busiest_in_bytes is flat within 1 %: a 10,000,001, a 10,000,001 bytes/step");
  EXPECT_EQ(text_of("floor_ms"), "floor_ms is flat within 1 %: a none, a none ms");
  EXPECT_EQ(text_of("over_floor"), "over_floor is flat within 1 %: a none, a none");
  run.link_usage =
      LinkUsage{.links = {}, .floor = StepFloor{.seconds = 0.5}, .over_floor = 1.25};
  EXPECT_EQ(text_of("floor_ms"), "floor_ms is flat within 1 %: a 500, a 500 ms");
  EXPECT_EQ(text_of("over_floor"), "over_floor is flat within 1 %: a 1.25, a 1.25");
}

TEST(ExpectationsTest, WhatFailsEndsWithExitCode3) {
  const std::vector<ExpectationResult> results = {
      {.kind = "flat", .verdict = Verdict::kPass, .text = "this"},
      {.kind = "ratio", .verdict = Verdict::kFail, .text = "that"},
      {.kind = "monotone", .verdict = Verdict::kFail, .text = "other"}};
  const absl::Status status = StatusOf(results);
  EXPECT_THAT(status, StatusIs(absl::StatusCode::kDataLoss,
                               Eq("expectations not met: 2 of 3; the first: that")));
  EXPECT_EQ(ExitCodeOf(status), ExitCode::kCheckFailed);
  EXPECT_EQ(ExpectationLines(results),
            "  expectations\n"
            "  flat PASS                   this\n"
            "  ratio FAIL                  that\n"
            "  monotone FAIL               other\n");
  EXPECT_OK(StatusOf({}));
  EXPECT_EQ(ExpectationLines({}), "");
}

TEST(ExpectationSettingsTest, Refuses) {
  EXPECT_THAT(
      CheckSettings(""),
      IsError(": expects nothing; allowed: monotone, flat, ratio, crossover, between"));
  EXPECT_THAT(
      CheckSettings("flat { figure: 'speed' arms: ['a', 'b'] }"),
      IsError(".flat.figure: is 'speed'; allowed: step_ms_p50, step_ms_mean, exposed_ms, "
              "exposed_share, samples_per_second, busiest_out_bytes, busiest_in_bytes, "
              "server_imbalance, fewest_contributions, most_contributions, floor_ms, "
              "over_floor, busiest_link_utilisation, busiest_link_bytes, "
              "worker_link_bytes, hot_spot_factor"));
  const std::string figure = "{ figure: 'step_ms_p50' ";
  EXPECT_THAT(CheckSettings("monotone " + figure + "arms: ['a', 'e'] }"),
              IsError(".monotone.arms[1]: is 'e'; allowed: a, b, c, d"));
  EXPECT_THAT(CheckSettings("monotone " + figure + "arms: 'a' }"),
              IsError(".monotone.arms: has 1; allowed: two or more arms"));
  EXPECT_THAT(CheckSettings("monotone " + figure + "arms: ['a', 'b'] direction: 7 }"),
              IsError(".monotone.direction: is 7; allowed: INCREASING, DECREASING"));
  EXPECT_THAT(CheckSettings("flat " + figure + "arms: ['a', 'b'] percent: nan }"),
              IsError(".flat.percent: is nan; allowed: a finite number of at least 0"));
  EXPECT_THAT(CheckSettings("ratio " + figure + "arm: 'a' low: 1 high: 2 }"),
              IsError(".ratio.over: missing; allowed: a, b, c, d"));
  for (const std::string range : {"low: 2 high: 1", "high: inf", "low: -1 high: 1", ""}) {
    for (const std::string kind : {"ratio ", "between "}) {
      const std::string over = kind == "ratio " ? "over: 'b' " : "";
      EXPECT_THAT(
          CheckSettings(absl::StrCat(kind, figure, "arm: 'a' ", over, range, " }")),
          StatusIs(
              absl::StatusCode::kInvalidArgument,
              testing::HasSubstr("finite numbers, low at least 0 and high at least low "
                                 "and above 0")))
          << kind << range;
    }
  }
  EXPECT_THAT(CheckSettings("between " + figure + "arm: 'e' low: 1 high: 2 }"),
              IsError(".between.arm: is 'e'; allowed: a, b, c, d"));
  const std::string lists = "crossover " + figure + "arms: ['a', 'b'] against: ";
  EXPECT_THAT(
      CheckSettings(lists + "['b', 'c', 'd'] at: 1 }"),
      IsError(".crossover.against: has 3 arms; allowed: as many as `arms` has, 2"));
  EXPECT_THAT(CheckSettings(lists + "['c', 'd'] }"),
              IsError(".crossover.at: missing; allowed: 1 to 1"));
  EXPECT_THAT(CheckSettings(lists + "['c', 'd'] at: 2 }"),
              IsError(".crossover.at: is 2; allowed: 1 to 1"));
}

}  // namespace
}  // namespace psring
