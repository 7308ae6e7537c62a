// What psring trace makes of run databases with known times.
#include "experiments/trace/trace.h"

#include <cstdint>
#include <filesystem>
#include <fstream>
#include <string>
#include <utility>
#include <vector>

#include "absl/status/status.h"
#include "absl/strings/str_cat.h"
#include "common/errors.h"
#include "common/status_matchers.h"
#include "experiments/sqlite.h"
#include "experiments/step_reader.h"
#include "experiments/trace/trace_test_util.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "nlohmann/json.hpp"
#include "proto/record.pb.h"

namespace psring {
namespace {

namespace fs = std::filesystem;
using nlohmann::json;
using testing::AllOf;
using testing::ElementsAre;
using testing::HasSubstr;
using testing::IsEmpty;
using testing::Not;

TEST_F(TraceTest, ServersAndWorkersAreOnOneTimeLine) {
  AddServersArm(2);
  ASSERT_OK(database_->EndRun(kEnded, absl::OkStatus()));
  const json trace = Trace(Options());
  EXPECT_THAT(names_, ElementsAre(std::pair(1, "servers / worker 0"),
                                  std::pair(2, "servers / worker 1"),
                                  std::pair(3, "servers / server 0")));
  EXPECT_THAT(Lane("servers / worker 0 / compute"),
              ElementsAre("step 0 0 100", "record 0 1", "data 1 5", "forward 5 20",
                          "backward 20 60", "exposed 60 90"));
  EXPECT_THAT(Lane("servers / worker 1 / compute", 3),
              ElementsAre("step 0 1 101", "record 1 2", "data 2 6"));
  // They overlap: each has a lane.
  EXPECT_THAT(
      Lane("servers / worker 1 / communication"),
      ElementsAre("bucket 0: tensors tensor1 and tensor2 41 71", "exchange 46 71"));
  EXPECT_THAT(Lane("servers / worker 1 / communication 2"),
              ElementsAre("bucket 1: tensor tensor0 61 91", "exchange 61 91"));
  EXPECT_THAT(Lane("servers / server 0 / server"),
              ElementsAre("apply slot 0 65 65", "apply slot 0 65.25 65.25",
                          "apply slot 1 80 80", "apply slot 1 80.25 80.25"));
  EXPECT_THAT(Arrows(),
              testing::IsSupersetOf({"servers / worker 0 45, servers / server 0 65, "
                                     "servers / worker 0 70",
                                     "servers / worker 1 61, servers / server 0 80.25, "
                                     "servers / worker 1 91",
                                     "servers / worker 1 161, servers / server 0 180.25, "
                                     "servers / worker 1 191"}));
  EXPECT_EQ(arrows_.size(), 8);
  const TracedEvent& exposed = lanes_["servers / worker 0 / compute"][5];
  // Bucket 0 moves for 24 from when worker 1 launches it, bucket 1 for 29; each is worked
  // on for 2.5 of that. 10 and 20 are exposed.
  EXPECT_EQ(exposed.args, (json{{"not_ready_us", 0.0},
                                {"peer_late_us", 0.0},
                                {"on_wire_us", 27.235},
                                {"working_us", 2.765}}))
      << exposed.args;
  const json& run = trace["otherData"]["runs"][0];
  EXPECT_EQ(run["arm"], "servers");
  EXPECT_EQ(run["seed"], kSeed);
  EXPECT_EQ(run["steps"], (json{0, 1}));
  EXPECT_EQ(run["clocks_agree_within_us"], 3.0);
  EXPECT_EQ(run["zero_on_coordinator_clock_ns"], 1'000'000);
  EXPECT_EQ(run["arrows_left_out"], 0);
  EXPECT_FALSE(run.contains("note"));
  EXPECT_EQ(run["buckets"][0],
            (json{{"bucket", 0}, {"bytes", 8}, {"tensors", {"tensor1", "tensor2"}}}));
  EXPECT_THAT(log_.str(), AllOf(HasSubstr("wrote "), HasSubstr("/trace.json"),
                                Not(HasSubstr("steps 0"))));
}

TEST_F(TraceTest, ARingsArrowsGoToTheRightNeighbourInItsOrder) {
  BeginArm("ring", 3, "ring {}", "ring_order: [0, 2, 1]");
  for (const int rank : {0, 1, 2}) AddStep(rank, 4, 1000);
  ASSERT_OK(database_->EndRun(kEnded, absl::OkStatus()));
  Trace(Options());
  EXPECT_THAT(Arrows(), ElementsAre("ring / worker 0 45, ring / worker 2 72",
                                    "ring / worker 0 60, ring / worker 2 92",
                                    "ring / worker 1 46, ring / worker 0 70",
                                    "ring / worker 1 61, ring / worker 0 90",
                                    "ring / worker 2 47, ring / worker 1 71",
                                    "ring / worker 2 62, ring / worker 1 91"));
}

// Its place among exposed time is inferred, and says so.
TEST_F(TraceTest, TheLocalOptimizerFollowsTheBuckets) {
  BeginArm("ring", 2, "ring {}");
  for (const int rank : {0, 1}) AddStep(rank, 0, 1000, /*optimizer_us=*/8);
  Trace(Options());
  std::vector<std::string> finish = Lane("ring / worker 0 / compute");
  finish.erase(finish.begin(), finish.begin() + 5);
  EXPECT_THAT(finish, ElementsAre("exposed 60 70", "optimizer 70 72", "exposed 72 84",
                                  "optimizer 84 90"));
  for (const TracedEvent& event : lanes_["ring / worker 0 / compute"]) {
    EXPECT_EQ(event.args.contains("inferred"),
              event.name == "exposed" || event.name == "optimizer")
        << event.name;
  }
}

// As a killed launcher leaves it, on a copy of the files: without an end, with a
// contribution of a step that the worker had not sent yet.
TEST_F(TraceTest, ARunThatWasCutOffIsShownAndSaysSo) {
  AddServersArm(2);
  AddContribution(1, 0, 2, 1265);
  const std::string copy = folder_ + "/copy";
  fs::create_directory(copy);
  for (const char* const file : {"run.db", "run.db-wal"}) {
    fs::copy(absl::StrCat(folder_, "/", file), absl::StrCat(copy, "/", file));
  }
  TraceOptions options = Options();
  options.run = copy;
  options.steps = StepRange{.first = 1};
  const json trace = Trace(options);
  const json& run = trace["otherData"]["runs"][0];
  EXPECT_THAT(run["note"].get<std::string>(), HasSubstr("not finished"));
  EXPECT_THAT(log_.str(), HasSubstr("not finished"));
  EXPECT_THAT(Lane("servers / worker 1 / compute", 2),
              ElementsAre("step 1 1 101", "record 1 2"));
  EXPECT_EQ(lanes_["servers / server 0 / server"].size(), 5);
  // Of all that is there.
  options.steps.reset();
  Trace(options);
  EXPECT_EQ(lanes_["servers / server 0 / server"].size(), 9);
}

TEST_F(TraceTest, ARunWithoutStepsIsValid) {
  BeginArm("servers", 2, "parameter_server { sync {} }");
  ASSERT_OK(database_->EndRun(kEnded, absl::UnavailableError("worker 1 is lost")));
  const json trace = Trace(Options());
  EXPECT_EQ(trace["otherData"]["runs"][0]["note"],
            "ended with: worker 1 is lost; no step is recorded");
  EXPECT_EQ(names_.size(), 3);
}

// The server's clock seems ahead by more than the way takes.
TEST_F(TraceTest, ArrowsThatWouldGoBackInTimeAreLeftOutAndCounted) {
  BeginArm("servers", 2, "parameter_server { sync {} }");
  AddStep(0, 0, 1000);
  AddContribution(0, 0, 0, 1044);  // Before it is launched.
  AddContribution(1, 0, 0, 1095);  // After it is back.
  const json trace = Trace(Options());
  EXPECT_THAT(Arrows(), ElementsAre("servers / worker 0 60, servers / server 0 95"));
  EXPECT_EQ(trace["otherData"]["runs"][0]["arrows_left_out"], 2);
}

// Rounds 7 and 9 are the worker's steps 0 and 1.
TEST_F(TraceTest, RoundsAreMatchedWithTheWorkersOwnSteps) {
  BeginArm("servers", 3, "parameter_server { backup { spares: 1 } }");
  AddStep(0, 0, 1000);
  AddStep(0, 1, 1100);
  AddContribution(0, 0, 7, 1065);
  AddContribution(0, 0, 9, 1165, ContributionRecord::LATE);
  Trace(Options());
  EXPECT_THAT(Arrows(), ElementsAre("servers / worker 0 45, servers / server 0 65, "
                                    "servers / worker 0 70",
                                    "servers / worker 0 145, servers / server 0 165, "
                                    "servers / worker 0 170"));
  const std::vector<TracedEvent>& server = lanes_["servers / server 0 / server"];
  ASSERT_EQ(server.size(), 2);
  EXPECT_EQ(server[1].name, "drop slot 0");
  EXPECT_EQ(server[1].args["step"], 1);
  EXPECT_EQ(server[1].args["round"], 9);
  EXPECT_EQ(server[1].args["dropped"], "late");
  EXPECT_TRUE(server[1].args.contains("inferred"));
}

TEST_F(TraceTest, WithoutAPlanThereAreNoNamesAndNoArrows) {
  ASSERT_OK(BeginRun("arm"));
  ASSERT_OK(database_->AddPlan({{.bytes = 8}, {.bytes = 24}}));
  AddStep(0, 0, 1000);
  AddContribution(0, 0, 0, 1065);
  const json trace = Trace(Options());
  EXPECT_THAT(Arrows(), IsEmpty());
  EXPECT_THAT(Lane("arm / worker 0 / communication"),
              ElementsAre("bucket 0 40 70", "exchange 45 70"));
  EXPECT_EQ(lanes_["arm / server 0 / server"].size(), 1);
  EXPECT_THAT(trace["otherData"]["runs"][0]["note"].get<std::string>(),
              HasSubstr("names of tensors and arrows are left out"));
}

TEST_F(TraceTest, OnlyTheLastStepsUnlessOthersAreAskedFor) {
  AddServersArm(kTracedSteps + 5);
  BeginArm("ring", 2, "ring {}");
  AddStep(0, 0, 1000);
  Trace(Options());
  EXPECT_EQ(Shown("servers / worker 1"), std::pair(int64_t{5}, kTracedSteps + 4));
  EXPECT_EQ(lanes_["servers / server 0 / server"].size(), 4 * kTracedSteps);
  // Arms lie one below the other.
  EXPECT_EQ(lanes_["servers / worker 0 / compute"][0].begin, 0);
  EXPECT_EQ(lanes_["ring / worker 0 / compute"][0].begin, 0);
  EXPECT_THAT(log_.str(),
              AllOf(HasSubstr("servers: steps 5 to 204 of steps 0 to 204; --steps A-B"),
                    Not(HasSubstr("ring: steps"))));
  TraceOptions options = Options();
  options.arm = "servers";
  options.steps = StepRange{.first = 3, .last = 4};
  options.out = folder_ + "/some.json";
  Trace(options);
  EXPECT_EQ(Shown("servers / worker 0"), std::pair(int64_t{3}, int64_t{4}));
  EXPECT_EQ(lanes_["servers / server 0 / server"].size(), 8);
  EXPECT_EQ(names_.size(), 3);
}

// Worker 1 makes a step while worker 0 makes ten.
TEST_F(TraceTest, WhatASlowWorkerDidMeanwhileIsShown) {
  BeginArm("servers", 2, "parameter_server { async {} }");
  const int steps = kTracedSteps + 50;
  for (int step = 0; step < steps; ++step) {
    AddStep(0, step, 1000 + 100 * step);
    AddContribution(0, 0, step, 1065 + 100 * step);
  }
  for (int step = 0; step < steps / 10; ++step) {
    AddStep(1, step, 1000 + 1000 * step);
    AddContribution(0, 1, step, 1066 + 1000 * step);
  }
  const json trace = Trace(Options());
  EXPECT_EQ(Shown("servers / worker 0"), std::pair(int64_t{50}, int64_t{249}));
  EXPECT_EQ(Shown("servers / worker 1"), std::pair(int64_t{5}, int64_t{24}));
  EXPECT_EQ(lanes_["servers / server 0 / server"].size(), 220);
  EXPECT_EQ(lanes_["servers / worker 0 / compute"][0].begin, 0);
  // Asked for by number.
  TraceOptions options = Options();
  options.steps = StepRange{.first = 1, .last = 3};
  Trace(options);
  EXPECT_EQ(Shown("servers / worker 0"), std::pair(int64_t{1}, int64_t{3}));
  EXPECT_EQ(Shown("servers / worker 1"), std::pair(int64_t{1}, int64_t{3}));
}

TEST_F(TraceTest, TheWayOfABucketThroughAServer) {
  AddServersArm(2);
  ASSERT_OK_AND_ASSIGN(const std::string text, TellBucketPath(Options(), 1, 1));
  EXPECT_EQ(text, R"(servers: bucket 1: tensor tensor0, 24 bytes
  some mode; 2 workers, 1 server
  times in step 1 since worker 0 began it; clocks agree within 3.0 us

  worker  begins us  ready us  launched us  back us  awaits peers us  moves us  worked on us
  0             0.0      60.0         60.0     90.0              1.0      29.0           2.5
  1             1.0      61.0         61.0     91.0              0.0      30.0           2.5

  slot  server  worker  applied us  version read  onto version
  1          0       0        80.0             1             1
  1          0       1        80.2             1             1

  last ready: worker 1 at 61.0 us, 1.0 us after worker 0
  last launched: worker 1 at 61.0 us, 1.0 us after worker 0
  last applied: slot 1 of server 0 at 80.2 us
  last back: worker 1 at 91.0 us, 1.0 us after worker 0
  not recorded: when a push is there and when its answer leaves, which is between launched and back
)");
}

TEST_F(TraceTest, TheWayOfABucketRoundARing) {
  BeginArm("ring", 3, "ring {}");
  AddStep(0, 2, 1000);
  AddStep(2, 2, 1000);
  ASSERT_OK_AND_ASSIGN(const std::string text, TellBucketPath(Options(), 0, 2));
  EXPECT_EQ(text, R"(ring: bucket 0: tensors tensor1 and tensor2, 8 bytes
  some mode; 3 workers
  times in step 2 since worker 0 began it; clocks agree within 3.0 us

  worker  sends to  begins us  ready us  launched us  back us  awaits peers us  moves us  worked on us
  0              1        0.0      40.0         45.0     70.0              2.0      23.0           2.5
  2              0        2.0      42.0         47.0     72.0              0.0      25.0           2.5

  last ready: worker 2 at 42.0 us, 2.0 us after worker 0
  last launched: worker 2 at 47.0 us, 2.0 us after worker 0
  last back: worker 2 at 72.0 us, 2.0 us after worker 0
  worker 1 has not recorded this step
  not recorded: when its segments move, which is between launched and back
)");
}

TEST_F(TraceTest, WhatIsNotThereIsOneLineThatSaysWhatIs) {
  TraceOptions options = Options();
  std::vector<std::pair<absl::Status, std::string>> cases;
  const auto fails = [&](const TraceOptions& wrong, const std::string& text) {
    cases.emplace_back(WriteTrace(wrong, &log_), text);
  };
  fails(options, "/run.db: no arm has begun in this run");
  AddServersArm(2);
  options.arm = "ring";
  fails(options, "has no run of arm ring; there are: servers with seed 184467");
  options = Options();
  options.seed = 7;
  fails(options, "has no run with seed 7; there are: servers with seed 184467");
  options = Options();
  options.steps = StepRange{.first = 2, .last = 5};
  fails(options, "arm servers: there are no steps 2 to 5; recorded: steps 0 to 1");
  options = Options();
  options.run = folder_ + "/nowhere";
  fails(options, "/nowhere: there is no such run folder or run.db");
  options.run = folder_ + "/empty";
  fs::create_directory(options.run);
  fails(options, "/empty is no run folder: there is no run.db in it");
  options.run = folder_ + "/text";
  std::ofstream(options.run) << std::string(5000, 'x');
  fails(options, "/text: file is not a database");
  options.run = folder_ + "/other.db";
  {
    ASSERT_OK_AND_ASSIGN(const auto other, SqliteConnection::Open(options.run));
    ASSERT_OK(other->Execute("CREATE TABLE t (a)"));
  }
  fails(options, "/other.db: it is no run database");
  {
    ASSERT_OK_AND_ASSIGN(const auto other, SqliteConnection::Open(options.run));
    ASSERT_OK(other->Execute("CREATE TABLE runs (a); PRAGMA user_version = 99"));
  }
  fails(options, "its schema has version 99");
  options = Options();
  options.out = folder_ + "/nowhere/trace.json";
  fails(options, "/nowhere/trace.json: No such file");
  cases.emplace_back(TellBucketPath(Options(), 2, 0).status(),
                     "arm servers: there is no bucket 2; there are buckets 0 to 1");
  cases.emplace_back(TellBucketPath(Options(), 1, 2).status(),
                     "arm servers: there is no step 2; recorded: steps 0 to 1");
  cases.emplace_back(ParseSteps("5-4").status(), "--steps: \"5-4\" is no range of steps");
  cases.emplace_back(ParseSteps("-3").status(), "\"-3\" is no range");
  cases.emplace_back(ParseSteps("x").status(), "\"x\" is no range");
  for (const auto& [status, text] : cases) {
    EXPECT_THAT(std::string(status.message()),
                AllOf(HasSubstr(text), Not(HasSubstr("\n"))));
    EXPECT_EQ(ExitCodeOf(status), ExitCode::kUsage) << status;
  }
  EXPECT_FALSE(fs::exists(folder_ + "/trace.json"));
}

TEST_F(TraceTest, RangesOfSteps) {
  ASSERT_OK_AND_ASSIGN(const StepRange several, ParseSteps("4-60"));
  EXPECT_EQ(std::pair(several.first, several.last), std::pair(int64_t{4}, int64_t{60}));
  ASSERT_OK_AND_ASSIGN(const StepRange one, ParseSteps("7"));
  EXPECT_EQ(std::pair(one.first, one.last), std::pair(int64_t{7}, int64_t{7}));
}

}  // namespace
}  // namespace psring
