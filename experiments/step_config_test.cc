#include "experiments/step_config.h"

#include <string>
#include <vector>

#include "absl/strings/str_cat.h"
#include "common/status_matchers.h"
#include "experiments/config.h"
#include "experiments/config_test_util.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"

namespace psring {
namespace {

using testing::HasSubstr;

absl::StatusOr<Experiment> Load(const std::vector<std::string>& overrides = {}) {
  return LoadText(R"(
      name: "test"
      model { mlp { hidden: [8, 4] } }
      data { fashion_mnist {} }
      training {
        epochs: 2
        global_batch: 24
        optimizer { sgd { learning_rate: 0.5 } }
      }
      cluster { workers: 4 servers: 1 }
      arms { name: "ring" ring {} }
      arms { name: "ps" parameter_server {} }
      arms { name: "alone" local {} }
  )",
                  overrides);
}

void ExpectRefused(const std::vector<std::string>& overrides, const std::string& why) {
  EXPECT_THAT(Load(overrides),
              StatusIs(absl::StatusCode::kInvalidArgument, HasSubstr(why)));
}

TEST(StepConfigTest, OnePassAndOneBranchAreTheDefault) {
  ASSERT_OK_AND_ASSIGN(const Experiment experiment, Load());
  EXPECT_EQ(experiment.training().micro_batches(), 1);
  EXPECT_EQ(experiment.training().uneven(), Training::DROP);
  EXPECT_EQ(experiment.training().unused_parameters(), Training::ZERO);
  EXPECT_EQ(experiment.model().mlp().branches(), 1);
}

TEST(StepConfigTest, MicroBatchesDivideAWorkersSamples) {
  EXPECT_OK(Load({"training.micro_batches=3"}));
  ExpectRefused({"training.micro_batches=0"},
                "--set training.micro_batches=0: training.micro_batches: is 0; allowed: "
                "at least 1");
  ExpectRefused({"training.micro_batches=4"},
                "training.micro_batches: the 6 samples of a worker of arm 'ring' cannot "
                "be divided among 4 passes; allowed: divisors of 6");
  // Local arms have one worker.
  EXPECT_OK(Load({"training.micro_batches=4", "arms=[{name: 'alone' local {}}]"}));
}

TEST(StepConfigTest, MadeUpGradientsStayExact) {
  const std::string emulated = "compute={emulated {forward_ms: 1}}";
  EXPECT_OK(Load({emulated, "training.micro_batches=2"}));
  ExpectRefused({emulated, "training.micro_batches=3"},
                "training.micro_batches: is 3, and sums of emulated gradients would not "
                "be exact; allowed: 1, 2, 4, ... 512");
  ExpectRefused({emulated, "training.micro_batches=1024"}, "is 1024");
}

TEST(StepConfigTest, JoinIsForArmsWhereAllWorkersAreInEachUpdate) {
  EXPECT_OK(Load({"training.uneven=JOIN"}));
  for (const char* mode :
       {"backup {}", "bounded {}", "async {}", "fixed_delay { delay: 1 }"}) {
    ExpectRefused(
        {"training.uneven=JOIN", absl::StrCat("arms[1].parameter_server={", mode, "}")},
        "training.uneven: is JOIN, and the servers of arm 'ps' do not wait for all "
        "workers; allowed: DROP, or arms of ring, local, and servers in sync alone");
  }
  ExpectRefused({"training.uneven=JOIN", "arms[1].wire={top_k {share: 0.1}}"},
                "training.uneven: is JOIN, and workers of arm 'ps' without samples would "
                "send what top_k has left out before; allowed: DROP, or another wire");
  ExpectRefused({"training.uneven=JOIN", "compute={emulated {forward_ms: 1}}"},
                "training.uneven: is JOIN, and with emulated compute there are no "
                "samples; allowed: DROP");
  ExpectRefused({"training.uneven=7"}, "training.uneven");
  ExpectRefused({"training.unused_parameters=7"}, "training.unused_parameters");
}

TEST(StepConfigTest, BranchesAreOfAHiddenLayer) {
  EXPECT_OK(Load({"model.mlp.branches=3"}));
  ExpectRefused({"model.mlp.branches=0"}, "model.mlp.branches: is 0; allowed: 1 to 1000");
  ExpectRefused({"model.mlp.branches=1001"}, "allowed: 1 to 1000");
  ExpectRefused({"model={mlp {branches: 2}}"},
                "model.mlp.branches: is 2, and there is no hidden layer to be them; "
                "allowed: 1, or with model.mlp.hidden");
}

// 95 samples are 3 batches and 23: three workers' 6, and 5. Alone, 24 are not there.
TEST(StepConfigTest, AnEpochHasOneMoreStepWhereSamplesJoin) {
  for (const bool join : {false, true}) {
    ASSERT_OK_AND_ASSIGN(
        const Experiment experiment,
        Load({absl::StrCat("training.uneven=", join ? "JOIN" : "DROP")}));
    for (int arm = 0; arm < 2; ++arm) {
      ASSERT_OK_AND_ASSIGN(const JobSpec spec,
                           ResolveArm(experiment, experiment.arms(arm), 95));
      EXPECT_EQ(spec.steps_per_epoch(), join ? 4 : 3);
      EXPECT_EQ(spec.last_contributors(), join ? 3 : 4);
      EXPECT_EQ(spec.steps(), join ? 8 : 6);
      EXPECT_EQ(DescribeUneven(spec, 95),
                join ? "join, the last step of an epoch has 3 of 4 workers, and its mean "
                       "is over them, 5 samples left out"
                     : "drop, 23 samples of each epoch left out");
      EXPECT_EQ(DescribeUneven(spec, 96), "");
    }
    ASSERT_OK_AND_ASSIGN(const JobSpec alone,
                         ResolveArm(experiment, experiment.arms(2), 95));
    EXPECT_EQ(alone.steps(), 6);
    EXPECT_EQ(alone.last_contributors(), 1);
    if (join) {
      EXPECT_EQ(
          DescribeUneven(alone, 95),
          "join, but what is left of an epoch is no worker's whole part: 23 samples "
          "of each epoch left out");
    }
  }
}

TEST(StepConfigTest, WithoutSamplesNothingIsSaidOfEpochs) {
  ASSERT_OK_AND_ASSIGN(const Experiment experiment,
                       Load({"compute={emulated {forward_ms: 1}}"}));
  ASSERT_OK_AND_ASSIGN(const JobSpec spec,
                       ResolveArm(experiment, experiment.arms(0), 95));
  EXPECT_EQ(spec.steps(), 6);
  EXPECT_EQ(spec.steps_per_epoch(), 0);
  EXPECT_EQ(DescribeUneven(spec, 95), "");
}

TEST(StepConfigTest, SaysWhatGradientsAreReducedTo) {
  const auto reduction = [](const std::vector<std::string>& overrides) {
    const auto experiment = Load(overrides);
    EXPECT_OK(experiment);
    const auto spec = ResolveArm(*experiment, experiment->arms(1), 1000);
    EXPECT_OK(spec);
    return DescribeReduction(*spec);
  };
  EXPECT_EQ(reduction({}),
            "mean over 4 workers of 6 samples each, global batch 24, effective learning "
            "rate 0.5");
  EXPECT_EQ(reduction({"training.micro_batches=2"}),
            "mean over 4 workers of 6 samples each in 2 passes, global batch 24, "
            "effective learning rate 0.5");
  EXPECT_EQ(reduction({"arms[1].parameter_server.backup.spares=1"}),
            "mean over the first 3 of 4 workers of 6 samples each, global batch 24, "
            "effective learning rate 0.5");
  EXPECT_EQ(
      reduction({"arms[1].parameter_server={async {}}"}),
      "none, a worker's gradient is an update of its own, of 6 samples each, global "
      "batch 24, effective learning rate 0.5 / 4");
  EXPECT_THAT(reduction({"arms[1].parameter_server={async {} "
                         "stale_updates {scale: INVERSE_STALENESS}}"}),
              HasSubstr("rate 0.5 / max(1, staleness)"));
  EXPECT_THAT(
      reduction({"arms[1].parameter_server={async {} stale_updates {scale: ONE}}"}),
      testing::EndsWith("rate 0.5"));
}

}  // namespace
}  // namespace psring
