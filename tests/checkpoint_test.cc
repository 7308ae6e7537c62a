// Runs that are stopped and continued: in the same mode and in others, with other numbers
// of servers, from checkpoints that are due, asked for by a signal, or damaged.
#include <signal.h>

#include <filesystem>
#include <fstream>
#include <string>
#include <vector>

#include "absl/strings/match.h"
#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "absl/strings/str_replace.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "nlohmann/json.hpp"
#include "tests/end_to_end_test_util.h"
#include "tests/subprocess.h"

namespace psring {
namespace {

namespace fs = std::filesystem;
using testing::AllOf;
using testing::HasSubstr;
using testing::Optional;

constexpr char kConfig[] = R"(
name: "checkpoint"
model { mlp { hidden: [16] } }
data { fashion_mnist {} }
training {
  steps: 20
  global_batch: 60
  optimizer { %s }
  seed: 1
  evaluation_interval: 5
  digest_interval: 1
}
cluster { workers: 3 servers: 1 }
buckets { cap_bytes: 20000 first_cap_bytes: 1000 }
checkpoint { every_steps: 10 keep: 2 }
arms { name: "one" parameter_server {} }
arms { name: "three" parameter_server {} cluster { servers: 3 } }
arms { name: "ring" ring {} }
arms { name: "sharded" ring { sharded_optimizer: true } }
arms { name: "async" parameter_server { async {} } }
arms { name: "bounded" parameter_server { bounded { bound: 1 } } }
arms { name: "backup" parameter_server { backup { spares: 1 } } }
)";

constexpr char kMomentum[] = "sgd { learning_rate: 0.1 momentum: 0.9 }";
constexpr char kAdam[] = "adam { learning_rate: 0.01 }";

class CheckpointTest : public EndToEndTest {
 protected:
  std::string Checkpointed(const std::string& optimizer = kMomentum) const {
    return Write("checkpoint.textproto", absl::StrFormat(kConfig, optimizer));
  }

  // `psring COMMAND CONFIG --out FOLDER MORE...`, to its end.
  struct Ended {
    int exit_code = -1;
    std::string out;
    std::string err;
  };
  Ended Run(const std::string& command, const std::string& config,
            const std::string& folder, const std::vector<std::string>& more) const {
    std::vector<std::string> arguments = {"experiments/psring", command, config, "--out",
                                          Path(folder)};
    arguments.insert(arguments.end(), more.begin(), more.end());
    Subprocess psring(arguments);
    const auto code = psring.Wait(kPatience);
    return {.exit_code = code.value_or(-1), .out = psring.out(), .err = psring.err()};
  }

  nlohmann::json Arm(const std::string& folder, const std::string& name) const {
    std::ifstream file(Path(folder + "/summary.json"));
    const nlohmann::json summary = nlohmann::json::parse(file, nullptr, false);
    if (summary.is_discarded()) return {};
    for (const nlohmann::json& run : summary["arms"]) {
      if (run["name"] == name) return run;
    }
    ADD_FAILURE() << "no arm " << name << " in " << folder;
    return {};
  }
  std::string Digest(const std::string& folder, const std::string& name) const {
    return Arm(folder, name)["parameter_digest"].get<std::string>();
  }

  std::string Checkpoint(const std::string& folder, const std::string& arm,
                         int step) const {
    return Path(absl::StrCat(folder, "/checkpoints/", arm, "/step-", step));
  }

  // They are about the steps that the run itself has made.
  void ExpectAllCertificates(const nlohmann::json& run) const {
    for (const auto& [name, verdict] : run["certificates"].items()) {
      EXPECT_NE(verdict.get<std::string>().substr(0, 4), "FAIL") << name << run["name"];
    }
    EXPECT_EQ(run["certificates"]["traffic"], "PASS");
    EXPECT_EQ(run["certificates"]["memory"], "PASS");
  }
};

// The bits are those of the run that never stopped, whoever goes on.
class CheckpointBitsTest : public CheckpointTest {
 protected:
  using Ways = std::vector<std::pair<std::string, std::vector<std::string>>>;

  void ExpectTheSameBits(const std::string& optimizer, const Ways& ways) const {
    const std::string config = Checkpointed(optimizer);
    std::string whole;
    for (const auto& [from, all_to] : ways) {
      const std::string folder = absl::StrCat("whole-", from);
      const Ended first = Run("run", config, folder, {"--arm", from});
      ASSERT_EQ(first.exit_code, 0) << first.err;
      EXPECT_THAT(first.err, HasSubstr("checkpoint of step 10: "));
      ASSERT_TRUE(fs::exists(Checkpoint(folder, from, 10) + "/manifest"));
      EXPECT_FALSE(fs::exists(Checkpoint(folder, from, 20)));  // It was at its end.
      if (whole.empty()) whole = Digest(folder, from);
      ASSERT_EQ(Digest(folder, from), whole);
      for (const std::string& to : all_to) {
        SCOPED_TRACE(absl::StrCat(from, " to ", to));
        const std::string next = absl::StrCat(folder, "-", to);
        const Ended second =
            Run("run", config, next,
                {"--arm", to, "--restore", Checkpoint(folder, from, 10)});
        ASSERT_EQ(second.exit_code, 0) << second.err;
        EXPECT_THAT(second.out, HasSubstr("restored from step"));
        const nlohmann::json run = Arm(next, to);
        EXPECT_EQ(run["parameter_digest"], whole);
        EXPECT_EQ(run["restored_from_step"], 10);
        EXPECT_EQ(run["evaluations"].size(), 2);
        EXPECT_EQ(run["evaluations"][0]["step"], 15);
        EXPECT_EQ(run["certificates"]["replica"], "PASS");
        ExpectAllCertificates(run);
        fs::remove_all(Path(next));
      }
    }
  }
};

TEST_F(CheckpointBitsTest, WithMomentumFromEveryModeThatKeepsStepToEach) {
  const std::vector<std::string> all = {"one", "three", "ring", "sharded"};
  ExpectTheSameBits(kMomentum, {{"one", all}, {"ring", all}, {"sharded", all}});
}

// Whose state is twice as large, and depends on the number of steps made.
TEST_F(CheckpointBitsTest, WithAdamToAnother) {
  ExpectTheSameBits(kAdam,
                    {{"one", {"three"}}, {"ring", {"one"}}, {"sharded", {"ring"}}});
}

// Gradients that nobody has computed are those of the step all the same.
TEST_F(CheckpointTest, WithEmulatedComputeTheBitsAreThoseOfTheRunThatNeverStopped) {
  const std::string config = Write("emulated.textproto", R"(
name: "emulated"
model { tensors { elements: 1000 repeat: 4 } }
compute { emulated {} }
training { steps: 20 global_batch: 6 micro_batches: 2 seed: 1
           optimizer { sgd { learning_rate: 0.01 momentum: 0.9 } } }
cluster { workers: 3 servers: 1 }
checkpoint { every_steps: 10 }
arms { name: "ring" ring {} }
arms { name: "one" parameter_server {} }
)");
  ASSERT_EQ(Run("run", config, "whole", {"--arm", "ring"}).exit_code, 0);
  const Ended next = Run("run", config, "next",
                         {"--arm", "one", "--restore", Checkpoint("whole", "ring", 10)});
  ASSERT_EQ(next.exit_code, 0) << next.err;
  EXPECT_EQ(Arm("next", "one")["restored_from_step"], 10);
  EXPECT_EQ(Digest("next", "one"), Digest("whole", "ring"));
}

// Each arm from its own, found in the folder of the run.
TEST_F(CheckpointTest, ContinuesInModesThatDoNotKeepStep) {
  const std::string config = Checkpointed();
  for (const std::string arm : {"async", "bounded", "backup"}) {
    SCOPED_TRACE(arm);
    auto psring = std::make_unique<Subprocess>(std::vector<std::string>{
        "experiments/psring", "run", config, "--out", Path(arm), "--arm", arm, "--set",
        "training.steps=100000000", "--set", "checkpoint.every_steps=0"});
    ASSERT_TRUE(psring->WaitForOutput("step ", kPatience)) << psring->err();
    psring->Signal(SIGTERM);
    ASSERT_THAT(psring->Wait(kPatience), Optional(128 + SIGTERM)) << psring->err();
    EXPECT_THAT(psring->err(), HasSubstr("checkpoint of step "));
    ASSERT_EQ(std::distance(fs::directory_iterator(Path(arm + "/checkpoints/" + arm)),
                            fs::directory_iterator()),
              1);
    const std::string step =
        fs::directory_iterator(Path(arm + "/checkpoints/" + arm))->path().filename();
    const int64_t made = std::stoll(step.substr(5));
    const std::string next = arm + "-next";
    const Ended second =
        Run("run", config, next,
            {"--arm", arm, "--restore", Path(arm), "--set",
             absl::StrCat("training.steps=", made + 50), "--set",
             "checkpoint.every_steps=10", "--set", "training.evaluation_interval=0"});
    ASSERT_EQ(second.exit_code, 0) << second.err;
    const nlohmann::json run = Arm(next, arm);
    EXPECT_EQ(run["restored_from_step"], made);
    EXPECT_EQ(run["certificates"]["consistency"], "PASS");
    ExpectAllCertificates(run);
  }
}

TEST_F(CheckpointTest, ASignalAsksForOneAndTheRunGoesOn) {
  const std::string config = Checkpointed();
  for (const std::string arm : {"three", "ring"}) {
    SCOPED_TRACE(arm);
    Subprocess psring({"experiments/psring", "run", config, "--out", Path(arm), "--arm",
                       arm, "--set", "training.steps=100000000", "--set",
                       "checkpoint.every_steps=0", "--set",
                       "training.evaluation_interval=0"});
    ASSERT_TRUE(psring.WaitForOutput("step ", kPatience)) << psring.err();
    int64_t saved = 0;
    size_t told = 0;  // So much of stderr has been looked at.
    for (int i = 0; i < 2; ++i) {
      psring.Signal(SIGUSR1);
      const auto rest =
          psring.WaitForRestOfLine(": checkpoint of step ", kPatience, told);
      ASSERT_TRUE(rest.has_value()) << psring.err();
      int64_t step = 0;
      ASSERT_TRUE(absl::SimpleAtoi(rest->substr(0, rest->find(':')), &step)) << *rest;
      EXPECT_GT(step, saved);
      saved = step;
      told = psring.err().size();
      EXPECT_TRUE(fs::exists(Checkpoint(arm, arm, static_cast<int>(step)) + "/manifest"));
      // Goes on: more steps are made, and reported.
      for (int64_t made = 0; made <= step;) {
        const auto progress = psring.WaitForRestOfLine(arm + ": step ", kPatience, told);
        ASSERT_TRUE(progress.has_value()) << psring.err();
        ASSERT_TRUE(absl::SimpleAtoi(
            absl::StrReplaceAll(progress->substr(0, progress->find(' ')), {{",", ""}}),
            &made))
            << *progress;
        told = psring.err().find(*progress, told) + progress->size();
      }
    }
    psring.Signal(SIGTERM);
    ASSERT_THAT(psring.Wait(kPatience), Optional(128 + SIGTERM)) << psring.err();
    // The two newest are kept, and both are whole.
    std::vector<std::string> folders;
    for (const auto& entry : fs::directory_iterator(Path(arm + "/checkpoints/" + arm))) {
      folders.push_back(entry.path().string());
    }
    EXPECT_EQ(folders.size(), 2);
    for (const std::string& folder : folders) {
      EXPECT_TRUE(fs::exists(folder + "/manifest")) << folder;
    }
  }
}

TEST_F(CheckpointTest, ADamagedOneIsRefusedByNameAndTheOneBeforeUsedWhereAsked) {
  const std::string config = Checkpointed();
  ASSERT_EQ(
      Run("run", config, "whole", {"--arm", "one", "--set", "checkpoint.every_steps=5"})
          .exit_code,
      0);
  EXPECT_FALSE(fs::exists(Checkpoint("whole", "one", 5)));
  const std::string digest = Digest("whole", "one");
  const std::string name = "whole/checkpoints/one/step-15/server-0";
  const std::string part = Path(name);
  const auto size = fs::file_size(part);
  {
    std::fstream file(part, std::ios::in | std::ios::out | std::ios::binary);
    file.seekg(static_cast<std::streamoff>(size / 2));
    const char byte = static_cast<char>(file.get() ^ 4);
    file.seekp(static_cast<std::streamoff>(size / 2));
    file.put(byte);
  }
  const std::vector<std::string> restore = {"--arm", "ring", "--restore",
                                            Path("whole/checkpoints/one")};
  const Ended refused = Run("run", config, "refused", restore);
  EXPECT_EQ(refused.exit_code, 1);
  EXPECT_THAT(refused.err, AllOf(HasSubstr(name + " is damaged: block "),
                                 HasSubstr("step-10, is whole: --restore-previous")));
  EXPECT_FALSE(fs::exists(Path("refused")));
  std::vector<std::string> previous = restore;
  previous.push_back("--restore-previous");
  const Ended used = Run("run", config, "used", previous);
  ASSERT_EQ(used.exit_code, 0) << used.err;
  EXPECT_THAT(used.err, HasSubstr("warning: "));
  EXPECT_EQ(Arm("used", "ring")["restored_from_step"], 10);
  EXPECT_EQ(Digest("used", "ring"), digest);

  fs::resize_file(part, size - 100);
  const Ended truncated = Run("run", config, "refused", restore);
  EXPECT_EQ(truncated.exit_code, 1);
  EXPECT_THAT(truncated.err, HasSubstr(name + " is truncated: it has "));
}

// As of a comparison that was stopped while its first arm ran.
TEST_F(CheckpointTest, AnArmOfAComparisonWithoutOneBeginsAtItsBeginning) {
  const std::string config = Checkpointed();
  const std::string two =
      "arms=[{name: 'one' parameter_server {}}, {name: 'ring' ring {}}]";
  ASSERT_EQ(Run("run", config, "stopped", {"--arm", "one"}).exit_code, 0);
  const Ended next =
      Run("compare", config, "next", {"--set", two, "--restore", Path("stopped")});
  ASSERT_EQ(next.exit_code, 0) << next.err;
  EXPECT_THAT(next.err, AllOf(HasSubstr("one: continues from "),
                              HasSubstr("ring: begins at its beginning")));
  EXPECT_EQ(Arm("next", "one")["restored_from_step"], 10);
  EXPECT_TRUE(Arm("next", "ring")["restored_from_step"].is_null());
  EXPECT_EQ(Digest("next", "ring"), Digest("next", "one"));
}

TEST_F(CheckpointTest, WhatDoesNotFitIsRefusedInOneLine) {
  const std::string config = Checkpointed();
  ASSERT_EQ(Run("run", config, "whole", {"--arm", "one"}).exit_code, 0);
  const auto refused = [&](std::vector<std::string> more) {
    std::vector<std::string> arguments = {"--arm", "one", "--restore", Path("whole")};
    arguments.insert(arguments.end(), more.begin(), more.end());
    const Ended ended = Run("run", config, "refused", arguments);
    EXPECT_EQ(ended.exit_code, 2) << ended.err;
    EXPECT_EQ(std::count(ended.err.begin(), ended.err.end(), '\n'), 1) << ended.err;
    EXPECT_FALSE(fs::exists(Path("refused")));
    return ended.err;
  };
  EXPECT_THAT(refused({"--set", "model.mlp.hidden=[8]"}), HasSubstr("model: "));
  EXPECT_THAT(refused({"--set", "training.seed=2"}), HasSubstr("training: "));
  EXPECT_THAT(refused({"--set", "training.optimizer.sgd.momentum=0.5"}),
              HasSubstr("momentum"));
  EXPECT_THAT(refused({"--set", "cluster.workers=2"}),
              HasSubstr("it is of 3 workers, arm one has 2"));
  EXPECT_THAT(refused({"--set", "training.steps=10"}),
              AllOf(HasSubstr("is of step 10"), HasSubstr("at least 11")));
  const Ended none =
      Run("run", config, "refused", {"--arm", "ring", "--restore", Path("whole")});
  EXPECT_EQ(none.exit_code, 2);
  EXPECT_THAT(none.err, HasSubstr("there is no checkpoint in "));
}

}  // namespace
}  // namespace psring
