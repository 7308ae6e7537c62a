// The configurations that come with the program, in experiments/configs/.
#include <string>
#include <vector>

#include "absl/strings/str_cat.h"
#include "common/job_plan.h"
#include "common/status_matchers.h"
#include "experiments/config.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"

namespace psring {
namespace {

TEST(ConfigsTest, FashionMnist) {
  ASSERT_OK_AND_ASSIGN(const Experiment experiment,
                       LoadExperiment("experiments/configs/fashion_mnist.textproto", {}));
  ASSERT_EQ(experiment.arms_size(), 2);
  EXPECT_TRUE(experiment.arms(0).has_parameter_server());
  EXPECT_TRUE(experiment.arms(1).has_ring());
  EXPECT_EQ(ResolveArm(experiment, experiment.arms(0), 60000)->steps(), 5 * 468);
}

TEST(ConfigsTest, Consistency) {
  ASSERT_OK_AND_ASSIGN(const Experiment experiment,
                       LoadExperiment("experiments/configs/consistency.textproto", {}));
  std::vector<std::string> arms;
  for (const Arm& arm : experiment.arms()) {
    EXPECT_OK(ResolveArm(experiment, arm, 60000));
    arms.push_back(arm.name());
  }
  EXPECT_THAT(arms, testing::ElementsAre("sync", "backup", "bounded_1", "bounded_4",
                                         "async", "ring"));
}

TEST(ConfigsTest, Sharded) {
  ASSERT_OK_AND_ASSIGN(const Experiment experiment,
                       LoadExperiment("experiments/configs/sharded.textproto", {}));
  ASSERT_EQ(experiment.arms_size(), 3);
  for (int arm = 0; arm < 3; ++arm) {
    EXPECT_EQ(experiment.arms(arm).ring().sharded_optimizer(), arm > 0);
  }
}

TEST(ConfigsTest, FairShareIsAValidExperiment) {
  ASSERT_OK_AND_ASSIGN(const Experiment experiment,
                       LoadExperiment("experiments/configs/fair_share.textproto", {}));
  EXPECT_EQ(experiment.cluster().workers(), 64);
  EXPECT_EQ(experiment.expect_size(), 2);
}

struct OnHostsConfig {
  const char* name;
  int arms;
  int expectations;
};

class OnHostsConfigTest : public testing::TestWithParam<OnHostsConfig> {};

TEST_P(OnHostsConfigTest, IsAValidExperiment) {
  ASSERT_OK_AND_ASSIGN(
      const Experiment experiment,
      LoadExperiment(absl::StrCat("experiments/configs/", GetParam().name, ".textproto"),
                     {}));
  EXPECT_EQ(experiment.name(), GetParam().name);
  EXPECT_EQ(experiment.expect_size(), GetParam().expectations);
  EXPECT_EQ(experiment.arms_size(), GetParam().arms);
  for (const Arm& arm : experiment.arms()) {
    ASSERT_OK_AND_ASSIGN(const JobSpec spec,
                         ResolveArm(experiment, arm, /*train_count=*/60000));
    EXPECT_NE(HostsOf(spec), nullptr) << arm.name();
  }
}

INSTANTIATE_TEST_SUITE_P(Configs, OnHostsConfigTest,
                         testing::Values(OnHostsConfig{"hot_spot", 12, 15},
                                         OnHostsConfig{"servers", 5, 6},
                                         OnHostsConfig{"negative_control", 9, 11},
                                         OnHostsConfig{"floor", 4, 0},
                                         OnHostsConfig{"placement", 4, 8},
                                         OnHostsConfig{"buckets", 14, 7}),
                         [](const auto& named) { return named.param.name; });

}  // namespace
}  // namespace psring
