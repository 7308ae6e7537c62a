// The consistency modes as a user runs them: what the summary says of each, and what
// happens to an arm that diverges.
#include <map>
#include <string>
#include <vector>

#include "absl/strings/str_cat.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "nlohmann/json.hpp"
#include "tests/end_to_end_test_util.h"

namespace psring {
namespace {

using testing::AllOf;
using testing::HasSubstr;
using testing::Optional;

constexpr char kHead[] = R"(
name: "modes"
model { mlp { hidden: [16] } }
data { fashion_mnist {} }
training {
  steps: 40
  global_batch: 60
  optimizer { sgd { learning_rate: 0.1 } }
  seed: 1
  evaluation_interval: 20
  target_accuracy: 0.3
}
cluster { workers: 3 servers: 2 }
buckets { cap_bytes: 20000 first_cap_bytes: 1000 }
)";

class ConsistencyEndToEndTest : public EndToEndTest {
 protected:
  std::string WithArms(const std::string& arms) const {
    return Write("config.textproto", absl::StrCat(kHead, arms));
  }
  std::map<std::string, nlohmann::json> Arms() const {
    std::map<std::string, nlohmann::json> arms;
    const nlohmann::json summary = Summary();
    for (const nlohmann::json& arm : summary["arms"]) {
      arms[absl::StrCat(arm["name"].get<std::string>(), "/", arm["seed"].get<int>())] =
          arm;
    }
    return arms;
  }
};

// More slots than a worker has unanswered in sync: where an answer waits for what another
// worker contributes later, all of them have to be on their way.
TEST_F(ConsistencyEndToEndTest, EveryModeGetsOnWithManySlots) {
  const auto psring = Start("compare", Write("config.textproto", R"(
      name: "slots"
      model { tensors { elements: 16384 repeat: 40 } }
      compute { emulated {} }
      buckets { cap_bytes: 65536 first_cap_bytes: 65536 }
      training { steps: 3 global_batch: 6 optimizer { sgd { learning_rate: 0.1 } } }
      cluster { workers: 3 servers: 1 }
      arms { name: "sync" parameter_server {} }
      arms { name: "backup" parameter_server { backup { spares: 1 } } }
      arms { name: "bounded" parameter_server { bounded {} } }
      arms { name: "async" parameter_server { async {} } }
      arms { name: "in_turn" parameter_server { fixed_delay {} } }
      arms { name: "delay" parameter_server { fixed_delay { delay: 1 } } })"));
  ASSERT_THAT(psring->Wait(kPatience), Optional(0)) << psring->err();
  for (const auto& [name, arm] : Arms()) {
    EXPECT_EQ(arm["certificates"]["consistency"], "PASS") << name;
  }
}

TEST_F(ConsistencyEndToEndTest, EveryModeKeepsItsPromiseAndUsesItsBudgetUp) {
  const auto psring = Start("compare", WithArms(R"(
      arms { name: "sync" parameter_server {} }
      arms { name: "backup" parameter_server { backup { spares: 1 } } }
      arms { name: "bounded" parameter_server { bounded { bound: 1 } } }
      arms { name: "async" parameter_server { async {} stale_updates { scale: ONE } } }
      arms { name: "delay" parameter_server { fixed_delay { delay: 4 } } }
      arms { name: "ring" ring {} })"));
  ASSERT_THAT(psring->Wait(kPatience), Optional(0)) << psring->err();
  auto arms = Arms();
  for (auto& [name, arm] : arms) {
    EXPECT_EQ(arm["certificates"]["traffic"], "PASS") << name;
    EXPECT_EQ(arm["certificates"]["consistency"],
              name == "ring/1" ? "not applicable" : "PASS")
        << name;
    if (name == "ring/1") continue;
    int64_t made = 0;
    for (const nlohmann::json& worker : arm["contributions"]) {
      made += worker["made"].get<int64_t>();
    }
    EXPECT_EQ(made, 3 * 40) << name;
  }
  for (const char* const name : {"sync/1", "backup/1"}) {
    EXPECT_EQ(arms[name]["staleness"]["max"], 0) << name;
  }
  EXPECT_LE(arms["bounded/1"]["clock_lag_max"], 1);
  EXPECT_EQ(arms["delay/1"]["staleness"]["max"], 4);
  EXPECT_EQ(arms["sync/1"]["parameter_digest"], arms["ring/1"]["parameter_digest"]);
  // The rounds of backup take two of three contributions.
  EXPECT_EQ(QueryOne("SELECT max(n) FROM (SELECT count(*) AS n FROM contributions "
                     "WHERE run = 2 AND dropped IS NULL GROUP BY slot, version)"),
            2);
}

TEST_F(ConsistencyEndToEndTest, AFixedDelayIsRepeatedBitForBit) {
  const std::string arms = R"(
      arms { name: "first" parameter_server { fixed_delay { delay: 2 } } }
      arms { name: "again" parameter_server { fixed_delay { delay: 2 } } }
      arms { name: "none" parameter_server { fixed_delay { delay: 0 } } })";
  const auto psring = Start("compare", WithArms(arms));
  ASSERT_THAT(psring->Wait(kPatience), Optional(0)) << psring->err();
  auto result = Arms();
  EXPECT_EQ(result["first/1"]["parameter_digest"], result["again/1"]["parameter_digest"]);
  EXPECT_NE(result["first/1"]["parameter_digest"], result["none/1"]["parameter_digest"]);
}

TEST_F(ConsistencyEndToEndTest, SeedsRepeatEveryArmAndAreComparedOneByOne) {
  const auto psring = Start("compare", WithArms(R"(
      arms { name: "sync" parameter_server {} }
      arms { name: "ring" ring {} })"),
                            {"--set", "training.seeds=3"});
  ASSERT_THAT(psring->Wait(kPatience), Optional(0)) << psring->err();
  auto arms = Arms();
  ASSERT_EQ(arms.size(), 6);
  for (int seed = 1; seed <= 3; ++seed) {
    const std::string s = absl::StrCat("/", seed);
    EXPECT_EQ(arms["sync" + s]["parameter_digest"], arms["ring" + s]["parameter_digest"]);
    EXPECT_EQ(arms["ring" + s]["certificates"]["replica"], "PASS");
  }
  EXPECT_NE(arms["ring/1"]["parameter_digest"], arms["ring/2"]["parameter_digest"]);
}

TEST_F(ConsistencyEndToEndTest, AnArmThatDivergesIsReportedAndTheOthersGoOn) {
  const auto psring = Start("compare", WithArms(R"(
      arms {
        name: "wild"
        parameter_server { async {} stale_updates { scale: ONE } }
        optimizer { sgd { learning_rate: 1e20 } }
      }
      arms { name: "ring" ring {} })"));
  EXPECT_THAT(psring->Wait(kPatience), Optional(6)) << psring->err();
  EXPECT_THAT(psring->err(),
              AllOf(HasSubstr("arm wild: worker "), HasSubstr("gradient of tensor layer"),
                    HasSubstr(" is ")));
  auto arms = Arms();
  EXPECT_EQ(arms["wild/1"]["verdict"], "diverged");
  EXPECT_EQ(arms["ring/1"]["verdict"], "reached target");
}

// Five workers and momentum, and no scale: whatever comes of it, it is said.
TEST_F(ConsistencyEndToEndTest, UnscaledAsyncWithMomentumLearnsOrIsReportedAsDiverged) {
  const auto psring = Start("compare", WithArms(R"(
      arms {
        name: "async"
        parameter_server { async {} stale_updates { scale: ONE } }
        optimizer { sgd { learning_rate: 0.1 momentum: 0.9 } }
      })"),
                            {"--set", "cluster.workers=5"});
  const auto exit_code = psring->Wait(kPatience);
  ASSERT_TRUE(exit_code.has_value());
  nlohmann::json arm = Arms()["async/1"];
  if (*exit_code == 0) {
    const double accuracy = arm["evaluations"].back()["accuracy"];
    EXPECT_TRUE(accuracy > 0.3 || arm["verdict"] == "diverged") << arm.dump(1);
  } else {
    EXPECT_EQ(*exit_code, 6) << psring->err();
    EXPECT_EQ(arm["verdict"], "diverged");
  }
}

}  // namespace
}  // namespace psring
