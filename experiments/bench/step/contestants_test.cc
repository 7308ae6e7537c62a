#include "experiments/bench/step/contestants.h"

#include <fstream>
#include <optional>
#include <string>
#include <vector>

#include "common/status_matchers.h"
#include "experiments/config.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"

namespace psring {
namespace {

using testing::ElementsAre;

std::vector<StepContestant> ContestantsOf(const StepBenchOptions& options) {
  return StepContestants(options, CheckStepOptions(options).value());
}

std::vector<std::string> NamesOf(const std::vector<StepContestant>& contestants) {
  std::vector<std::string> names;
  for (const StepContestant& contestant : contestants) {
    names.push_back(contestant.name());
  }
  return names;
}

TEST(StepContestantsTest, RingsHaveTransportsAllHaveCapsAndOneIsAlone) {
  StepBenchOptions options;
  options.transports = {"tcp", "grpc"};
  options.caps = {"1K", "2K"};
  EXPECT_THAT(
      NamesOf(ContestantsOf(options)),
      ElementsAre("psring-ring-tcp-1024", "psring-ring-tcp-2048", "psring-ring-grpc-1024",
                  "psring-ring-grpc-2048", "psring-servers-grpc-1024",
                  "psring-servers-grpc-2048", "psring-local"));
}

TEST(StepContestantsTest, PytorchHasItsOwnCapTooAndTheRanksThatPsringHas) {
  StepBenchOptions options;
  options.against = {"pytorch"};
  options.ranks = 3;
  options.arms = {"local", "ring"};
  const std::vector<StepContestant> both = ContestantsOf(options);
  EXPECT_THAT(NamesOf(both), ElementsAre("psring-local", "psring-ring-tcp-1048576",
                                         "pytorch-ddp-tcp-26214400",
                                         "pytorch-ddp-tcp-1048576", "pytorch-local"));
  EXPECT_EQ(StepReferenceOf(both, 0), std::nullopt);
  EXPECT_EQ(StepReferenceOf(both, 1), std::nullopt);
  EXPECT_EQ(StepReferenceOf(both, 2), 1);
  EXPECT_EQ(StepReferenceOf(both, 3), 1);
  EXPECT_EQ(StepReferenceOf(both, 4), 0);

  options.caps = {"25M"};
  options.arms = {"ring"};
  EXPECT_THAT(NamesOf(ContestantsOf(options)),
              ElementsAre("psring-ring-tcp-26214400", "pytorch-ddp-tcp-26214400"));
  options.ranks = 1;
  EXPECT_THAT(NamesOf(ContestantsOf(options)),
              ElementsAre("psring-ring-tcp-26214400", "pytorch-local"));
  options.arms = {"local"};
  options.ranks = 2;
  EXPECT_THAT(NamesOf(ContestantsOf(options)),
              ElementsAre("psring-local", "pytorch-local"));
}

// Each is one that `psring run` would take, with what was asked for.
TEST(StepContestantsTest, ExperimentsAreValid) {
  StepBenchOptions options;
  options.model = "6-5-4-10";
  options.batch = 3;
  options.servers = 2;
  options.caps = {"64K"};
  options.transports = {"shared_memory"};
  options.rounds = 4;
  options.iterations = 7;
  options.warm_up = 2;
  const StepSettings settings = CheckStepOptions(options).value();
  std::vector<Experiment> loaded;
  for (const StepContestant& contestant : StepContestants(options, settings)) {
    const std::string path = testing::TempDir() + "/" + contestant.name();
    std::ofstream(path) << PrintExperiment(
        StepExperiment(options, settings, contestant, "/data"));
    ASSERT_OK_AND_ASSIGN(const Experiment experiment, LoadExperiment(path, {}));
    loaded.push_back(experiment);
    EXPECT_THAT(experiment.model().mlp().hidden(), ElementsAre(5, 4));
    EXPECT_EQ(experiment.data().fashion_mnist().directory(), "/data");
    EXPECT_EQ(experiment.training().steps(), 10);  // One that is not timed.
    EXPECT_EQ(experiment.training().seeds(), 4);
    EXPECT_EQ(experiment.training().optimizer().sgd().momentum(), kStepMomentum);
  }
  ASSERT_EQ(loaded.size(), 3);
  EXPECT_EQ(loaded[0].arms(0).ring().transport(), RingMode::SHARED_MEMORY);
  EXPECT_EQ(loaded[0].buckets().cap_bytes(), 64 << 10);
  EXPECT_EQ(loaded[0].cluster().workers(), 2);
  EXPECT_EQ(loaded[0].training().global_batch(), 6);
  EXPECT_TRUE(loaded[1].arms(0).parameter_server().has_sync());
  EXPECT_EQ(loaded[1].buckets().cap_bytes(), 64 << 10);
  EXPECT_EQ(loaded[1].cluster().servers(), 2);
  EXPECT_TRUE(loaded[2].arms(0).has_local());
  EXPECT_EQ(loaded[2].cluster().workers(), 1);
  EXPECT_EQ(loaded[2].training().global_batch(), 3);
}

}  // namespace
}  // namespace psring
