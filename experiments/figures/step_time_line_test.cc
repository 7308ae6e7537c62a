// Time lines of run databases with known times.
#include "experiments/figures/step_time_line.h"

#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "absl/strings/str_cat.h"
#include "common/status_matchers.h"
#include "experiments/run_file.h"
#include "experiments/trace/trace_test_util.h"
#include "experiments/trace/traced_run.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"

namespace psring {
namespace {

using testing::ElementsAre;
using testing::HasSubstr;

class StepTimeLineTest : public TraceTest {
 protected:
  // Workers take steps of 100 us; gradients are applied 65 us after a step's beginning,
  // those of worker 1 onto parameters that are `stale` updates newer.
  void AddArm(const std::string& name, const std::string& mode, int steps, int stale) {
    BeginArm(name, 2, absl::StrCat("parameter_server { ", mode, " {} }"));
    for (int step = 0; step < steps; ++step) {
      const int start_us = 1000 + 100 * step;
      for (const int rank : {0, 1}) {
        AddStep(rank, step, start_us);
        AddContribution(0, rank, step, start_us + 65 + 2 * rank,
                        ContributionRecord::APPLIED, rank * stale);
        AddContribution(1, rank, step, start_us + 80);
      }
    }
  }

  std::string Open() {
    absl::StatusOr<std::unique_ptr<SqliteConnection>> opened = OpenRun(folder_);
    EXPECT_OK(opened.status());
    connection_ = *std::move(opened);
    absl::StatusOr<TellingRuns> telling = FindTellingRuns(*connection_);
    if (!telling.ok()) return std::string(telling.status().message());
    telling_ = *std::move(telling);
    return absl::StrCat(telling_.in_step ? telling_.in_step->arm : "none", ", ",
                        telling_.free ? telling_.free->arm : "none");
  }

  StepTimeLine Read(const std::optional<TracedRun>& run) {
    absl::StatusOr<StepTimeLine> line = ReadStepTimeLine(*connection_, *run);
    EXPECT_OK(line.status());
    return line.ok() ? *std::move(line) : StepTimeLine();
  }

  std::unique_ptr<SqliteConnection> connection_;
  TellingRuns telling_;
};

// "w1 step 3: 0 to 60 to 100", in microseconds.
std::vector<std::string> BarsOf(const StepTimeLine& line) {
  std::vector<std::string> texts;
  for (const StepBar& bar : line.bars) {
    texts.push_back(absl::StrCat("w", bar.rank, " step ", bar.step, ": ",
                                 1000 * bar.begin, " to ", 1000 * bar.computed, " to ",
                                 1000 * bar.end));
  }
  return texts;
}

// "w1 step 3: 46 to 67, stale 2"; "?": it is not known when it was launched.
std::vector<std::string> AppliedOf(const StepTimeLine& line) {
  std::vector<std::string> texts;
  for (const AppliedGradient& one : line.applied) {
    texts.push_back(absl::StrCat("w", one.rank, " step ", one.step, ": ",
                                 one.launched ? absl::StrCat(1000 * *one.launched) : "?",
                                 " to ", 1000 * one.applied, ", stale ", one.staleness));
  }
  return texts;
}

// Of nine steps the fourth to the sixth; all workers are equally slow, so that the first
// one's count.
TEST_F(StepTimeLineTest, ThreeStepsInTheMiddle) {
  AddArm("sync", "sync", 9, 0);
  EXPECT_EQ(Open(), "sync, none");
  const StepTimeLine line = Read(telling_.in_step);
  EXPECT_TRUE(line.lockstep);
  EXPECT_EQ(line.title, "sync");
  EXPECT_EQ(line.unknown, "");
  EXPECT_DOUBLE_EQ(line.length_ms, 0.3);
  EXPECT_DOUBLE_EQ(line.error_ms, 0.003);  // Two clocks, each within 1.5 us.
  // Worker 1 is 1 us late: its step 2 still goes on, and its step 5 is cut.
  EXPECT_THAT(BarsOf(line),
              ElementsAre("w1 step 2: 0 to 0 to 1", "w0 step 3: 0 to 60 to 100",
                          "w1 step 3: 1 to 61 to 101", "w0 step 4: 100 to 160 to 200",
                          "w1 step 4: 101 to 161 to 201", "w0 step 5: 200 to 260 to 300",
                          "w1 step 5: 201 to 261 to 300"));
  EXPECT_THAT(
      AppliedOf(line),
      ElementsAre("w0 step 3: 45 to 65, stale 0", "w1 step 3: 46 to 67, stale 0",
                  "w0 step 4: 145 to 165, stale 0", "w1 step 4: 146 to 167, stale 0",
                  "w0 step 5: 245 to 265, stale 0", "w1 step 5: 246 to 267, stale 0"));
  EXPECT_EQ(line.stale(), 0);
}

TEST_F(StepTimeLineTest, TheStalestArmStandsForThoseThatDoNotKeepStep) {
  AddArm("bounded", "async", 3, 1);
  AddArm("async", "async", 3, 2);
  AddArm("fresh", "async", 3, 0);
  AddArm("sync", "sync", 2, 0);
  AddArm("other_sync", "sync", 2, 0);
  EXPECT_EQ(Open(), "sync, async");
  const StepTimeLine line = Read(telling_.free);
  EXPECT_FALSE(line.lockstep);
  EXPECT_THAT(
      AppliedOf(line),
      ElementsAre("w0 step 0: 45 to 65, stale 0", "w1 step 0: 46 to 67, stale 2",
                  "w0 step 1: 145 to 165, stale 0", "w1 step 1: 146 to 167, stale 2",
                  "w0 step 2: 245 to 265, stale 0", "w1 step 2: 246 to 267, stale 2"));
  EXPECT_EQ(line.stale(), 3);
  EXPECT_EQ(line.most_stale(), 2);
}

TEST_F(StepTimeLineTest, WorkersThatDoNotKeepStepAreAtOtherNumbers) {
  BeginArm("async", 2, "parameter_server { async {} }");
  for (int step = 0; step < 8; ++step) AddStep(0, step, 1000 + 100 * step);
  for (int step = 0; step < 3; ++step) AddStep(1, step, 1300 + 150 * step);
  // Launched before the stretch, and so late that it is after it.
  AddContribution(0, 0, 1, 1201);
  AddContribution(0, 1, 2, 1670);
  AddContribution(0, 1, 0, 1366);
  // As clocks have it, applied before it was launched.
  AddContribution(0, 0, 3, 1340);
  // Dropped ones make no update.
  AddContribution(0, 0, 4, 1466, ContributionRecord::STALE);
  EXPECT_EQ(Open(), "none, async");
  const StepTimeLine line = Read(telling_.free);
  EXPECT_THAT(AppliedOf(line),
              ElementsAre("w0 step 1: ? to 1, stale 0", "w0 step 3: 140 to 140, stale 0",
                          "w1 step 0: 146 to 166, stale 0"));
  EXPECT_THAT(BarsOf(line),
              ElementsAre("w1 step 0: 101 to 161 to 201", "w1 step 1: 251 to 300 to 300",
                          "w0 step 2: 0 to 60 to 100", "w0 step 3: 100 to 160 to 200",
                          "w0 step 4: 200 to 260 to 300"));
}

TEST_F(StepTimeLineTest, ARunWithoutStepsOnServersIsAnError) {
  BeginArm("sync", 2, "parameter_server { sync {} }");
  BeginArm("ring", 2, "ring {}");
  AddStep(0, 0, 1000);
  EXPECT_THAT(Open(), HasSubstr("no arm with servers has recorded a step; allowed: "));
}

}  // namespace
}  // namespace psring
