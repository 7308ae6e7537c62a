// From a loaded experiment to the jobs of its arms.
#include <string>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "common/job_plan.h"
#include "common/layout.h"
#include "common/status_matchers.h"
#include "experiments/config.h"
#include "experiments/config_test_util.h"
#include "gmock/gmock.h"
#include "google/protobuf/util/message_differencer.h"
#include "gtest/gtest.h"

namespace psring {
namespace {

using google::protobuf::util::MessageDifferencer;
using testing::Eq;

absl::StatusOr<Experiment> Load(const std::vector<std::string>& overrides = {}) {
  return LoadText(R"(
      name: "test"
      model { mlp { hidden: [8, 4] } }
      data { fashion_mnist {} }
      training {
        steps: 100
        global_batch: 12
        optimizer { sgd { learning_rate: 0.5 } }
      }
      cluster { workers: 2 servers: 1 }
      arms { name: "ps" parameter_server {} }
      arms { name: "ring" ring {} }
  )",
                  overrides);
}

TEST(ResolveArmTest, ClusterOfEachMode) {
  ASSERT_OK_AND_ASSIGN(const Experiment experiment,
                       Load({"arms=[{name: 'a' parameter_server {}},"
                             "{name: 'b' ring {} cluster {workers: 3}},"
                             "{name: 'c' parameter_server {} cluster {servers: 4}},"
                             "{name: 'd' local {}}]"}));
  const auto resolve = [&](int arm) {
    const auto spec = ResolveArm(experiment, experiment.arms(arm), 1000);
    EXPECT_OK(spec);
    return std::pair<int, int>(spec->workers(), spec->servers());
  };
  EXPECT_EQ(resolve(0), std::pair(2, 1));
  EXPECT_EQ(resolve(1), std::pair(3, 0));
  EXPECT_EQ(resolve(2), std::pair(2, 4));
  EXPECT_EQ(resolve(3), std::pair(1, 0));
  ASSERT_OK_AND_ASSIGN(const JobSpec spec,
                       ResolveArm(experiment, experiment.arms(1), 1000));
  EXPECT_EQ(spec.job(), "test/b");
  EXPECT_EQ(spec.arm().name(), "b");
  EXPECT_TRUE(MessageDifferencer::Equals(spec.experiment(), experiment));
}

TEST(ResolveArmTest, TheArmsOptimizerReplacesTheExperiments) {
  ASSERT_OK_AND_ASSIGN(const Experiment experiment,
                       Load({"arms[1].optimizer.adam.learning_rate=0.25"}));
  EXPECT_TRUE(ResolveArm(experiment, experiment.arms(0), 1000)
                  ->experiment()
                  .training()
                  .optimizer()
                  .has_sgd());
  ASSERT_OK_AND_ASSIGN(const JobSpec spec,
                       ResolveArm(experiment, experiment.arms(1), 1000));
  EXPECT_TRUE(MessageDifferencer::Equals(spec.experiment().training().optimizer(),
                                         experiment.arms(1).optimizer()));
}

TEST(ResolveArmTest, TheArmsBucketsReplaceTheExperiments) {
  ASSERT_OK_AND_ASSIGN(const Experiment experiment,
                       Load({"buckets.overlap=false", "arms[1].buckets.cap_bytes=64"}));
  const auto resolve = [&](int arm) {
    auto spec = ResolveArm(experiment, experiment.arms(arm), 1000);
    EXPECT_OK(spec);
    ParameterLayout layout;
    for (const char* name : {"a", "b"}) layout.Add(name, {16});
    DescribeLayout(layout, &*spec);
    return *spec;
  };
  EXPECT_FALSE(resolve(0).experiment().buckets().overlap());
  EXPECT_EQ(PlanJob(resolve(0)).buckets.buckets.size(), 1u);
  EXPECT_TRUE(resolve(1).experiment().buckets().overlap());
  EXPECT_EQ(PlanJob(resolve(1)).buckets.buckets.size(), 2u);
}

TEST(ResolveArmTest, AnUpdateHasAsManyContributionsAsThePolicyPromises) {
  ASSERT_OK_AND_ASSIGN(const Experiment experiment,
                       Load({"cluster.workers=4",
                             "arms=[{name: 'a' parameter_server {}},"
                             "{name: 'b' parameter_server {backup {spares: 1}}},"
                             "{name: 'c' parameter_server {async {}}},"
                             "{name: 'd' ring {}}, {name: 'e' local {}}]"}));
  std::vector<int> contributions;
  for (const Arm& arm : experiment.arms()) {
    contributions.push_back(
        ResolveArm(experiment, arm, 1000)->contributions_per_update());
  }
  EXPECT_THAT(contributions, testing::ElementsAre(4, 3, 1, 4, 1));
}

TEST(RunsOfTest, OneForEachSeed) {
  ASSERT_OK_AND_ASSIGN(const Experiment experiment,
                       Load({"training.seed=7", "training.seeds=3"}));
  ASSERT_OK_AND_ASSIGN(const JobSpec arm,
                       ResolveArm(experiment, experiment.arms(1), 1000));
  const std::vector<JobSpec> runs = RunsOf(arm);
  ASSERT_EQ(runs.size(), 3);
  for (int i = 0; i < 3; ++i) {
    EXPECT_EQ(runs[i].experiment().training().seed(), 7 + i);
    EXPECT_EQ(runs[i].experiment().training().seeds(), 1);
    EXPECT_EQ(runs[i].job(), absl::StrCat("test/ring/seed-", 7 + i));
  }
}

TEST(RunsOfTest, ASingleSeedLeavesTheJobAsItIs) {
  ASSERT_OK_AND_ASSIGN(const Experiment experiment, Load());
  ASSERT_OK_AND_ASSIGN(const JobSpec arm,
                       ResolveArm(experiment, experiment.arms(1), 1000));
  const std::vector<JobSpec> runs = RunsOf(arm);
  ASSERT_EQ(runs.size(), 1);
  EXPECT_TRUE(MessageDifferencer::Equals(runs[0], arm));
}

TEST(ResolveArmTest, StepsAsGivenOrFromEpochs) {
  ASSERT_OK_AND_ASSIGN(const Experiment steps, Load());
  EXPECT_EQ(ResolveArm(steps, steps.arms(0), 60000)->steps(), 100);
  // 1000 samples make 83 whole batches of 12.
  ASSERT_OK_AND_ASSIGN(const Experiment epochs, Load({"training.epochs=3"}));
  EXPECT_EQ(ResolveArm(epochs, epochs.arms(0), 1000)->steps(), 249);
}

TEST(CheckAgainstDataTest, BatchAndEpochs) {
  ASSERT_OK_AND_ASSIGN(const Experiment experiment, Load());
  EXPECT_OK(CheckAgainstData(experiment, 12));
  const auto too_large = StatusIs(
      absl::StatusCode::kInvalidArgument,
      Eq("training.global_batch: is 12, more than the training set has; allowed: at most "
         "11"));
  EXPECT_THAT(CheckAgainstData(experiment, 11), too_large);
  EXPECT_THAT(ResolveArm(experiment, experiment.arms(0), 11), too_large);
  ASSERT_OK_AND_ASSIGN(const Experiment endless,
                       Load({"training.epochs=9223372036854775807"}));
  EXPECT_THAT(CheckAgainstData(endless, 1000),
              StatusIs(absl::StatusCode::kInvalidArgument,
                       Eq("training.epochs: is 9223372036854775807; allowed: at most "
                          "12048192")));
}

}  // namespace
}  // namespace psring
