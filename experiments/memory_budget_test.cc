#include "experiments/memory_budget.h"

#include <string>
#include <vector>

#include "absl/strings/str_cat.h"
#include "experiments/arm_result_test_util.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"

namespace psring {
namespace {

using testing::ElementsAre;

enum class Kind { kSgd, kMomentum, kAdam, kAdagrad };

JobSpec With(Kind kind, JobSpec spec) {
  Optimizer& optimizer =
      *spec.mutable_experiment()->mutable_training()->mutable_optimizer();
  switch (kind) {
    case Kind::kSgd:
      optimizer.mutable_sgd();
      break;
    case Kind::kMomentum:
      optimizer.mutable_sgd()->set_momentum(0.5f);
      break;
    case Kind::kAdam:
      optimizer.mutable_adam();
      break;
    case Kind::kAdagrad:
      optimizer.mutable_adagrad();
      break;
  }
  return spec;
}

// "optimizer state 40", "contributions <= 80"
std::vector<std::string> Of(const std::string& process, const JobSpec& spec) {
  std::vector<std::string> texts;
  for (const ProcessBudget& budget : MemoryBudget(spec, PlanJob(spec))) {
    if (budget.name != process) continue;
    for (const PurposeBudget& purpose : budget.purposes) {
      texts.push_back(
          absl::StrCat(purpose.purpose, purpose.exact ? " " : " <= ", purpose.bytes));
    }
  }
  return texts;
}

// The model has 10 parameters, in buckets of 3 and 7.
TEST(MemoryBudgetTest, AWorkerOfARingKeepsTheStateOfEverything) {
  const auto state = [](Kind kind) { return Of("worker 1", With(kind, RingSpec(2))); };
  EXPECT_THAT(state(Kind::kSgd),
              ElementsAre("parameters 40", "gradients 40", "optimizer state 0"));
  EXPECT_THAT(state(Kind::kMomentum),
              ElementsAre("parameters 40", "gradients 40", "optimizer state 40"));
  EXPECT_THAT(state(Kind::kAdam),
              ElementsAre("parameters 40", "gradients 40", "optimizer state 80"));
  EXPECT_THAT(state(Kind::kAdagrad),
              ElementsAre("parameters 40", "gradients 40", "optimizer state 40"));
  EXPECT_THAT(Of("worker 0", With(Kind::kAdam, LocalSpec())),
              ElementsAre("parameters 40", "gradients 40", "optimizer state 80"));
}

// Chunks of 2 and 1 elements, and of 4 and 3.
TEST(MemoryBudgetTest, WithAShardedOptimizerThatOfItsChunksAlone) {
  JobSpec spec = With(Kind::kAdam, RingSpec(2));
  spec.mutable_arm()->mutable_ring()->set_sharded_optimizer(true);
  EXPECT_THAT(Of("worker 0", spec),
              ElementsAre("parameters 40", "gradients 40", "optimizer state 48"));
  EXPECT_THAT(Of("worker 1", spec),
              ElementsAre("parameters 40", "gradients 40", "optimizer state 32"));
  // The first chunk is that of the first in the ring.
  spec.mutable_experiment()->add_ring_order(1);
  spec.mutable_experiment()->add_ring_order(0);
  EXPECT_THAT(Of("worker 1", spec),
              ElementsAre("parameters 40", "gradients 40", "optimizer state 48"));
}

TEST(MemoryBudgetTest, MicroBatchesHaveASum) {
  JobSpec spec = With(Kind::kSgd, RingSpec(2));
  spec.mutable_experiment()->mutable_training()->set_micro_batches(1);
  EXPECT_EQ(Of("worker 0", spec).size(), 3);
  spec.mutable_experiment()->mutable_training()->set_micro_batches(2);
  EXPECT_THAT(Of("worker 0", spec),
              ElementsAre("parameters 40", "gradients 40", "optimizer state 0",
                          "accumulated gradients 40"));
}

// Server 0 has 2 and 4 elements of the buckets, server 1 has 1 and 3.
TEST(MemoryBudgetTest, ServersKeepTheirSlotsAndWorkersNoState) {
  const JobSpec spec = With(Kind::kAdam, ServersSpec(3, 2, Sync::RING));
  EXPECT_THAT(Of("worker 2", spec),
              ElementsAre("parameters 40", "gradients 40", "optimizer state 0"));
  // Contributions of three workers; the last snapshot, and a version that is still read.
  EXPECT_THAT(Of("server 0", spec),
              ElementsAre("parameters 24", "optimizer state 48", "contributions <= 72",
                          "older versions <= 48"));
  EXPECT_THAT(Of("server 1", spec),
              ElementsAre("parameters 16", "optimizer state 32", "contributions <= 48",
                          "older versions <= 32"));
}

TEST(MemoryBudgetTest, ServersKeepSnapshots) {
  JobSpec spec = With(Kind::kSgd, ServersSpec(2, 1, Sync::RING));
  spec.set_steps(12);
  spec.mutable_experiment()->mutable_training()->set_evaluation_interval(5);
  // After 5, 10 and 12 steps.
  EXPECT_THAT(Of("server 0", spec),
              ElementsAre("parameters 40", "optimizer state 0", "contributions <= 80",
                          "older versions <= 160"));
}

TEST(MemoryBudgetTest, OutOfLockstepEachWorkerMayReadAnotherVersion) {
  for (const JobSpec& spec : {AsyncSpec(3), BoundedSpec(3, 1), BackupSpec(3, 1)}) {
    EXPECT_THAT(Of("server 0", With(Kind::kSgd, spec)),
                ElementsAre("parameters 40", "optimizer state 0", "contributions <= 120",
                            "older versions <= 280"))
        << spec.arm().name();
  }
}

TEST(MemoryBudgetTest, AFixedDelayKeepsVersionsAndContributions) {
  EXPECT_THAT(Of("server 0", With(Kind::kSgd, FixedDelaySpec(2, 0))),
              ElementsAre("parameters 40", "optimizer state 0", "contributions <= 40",
                          "older versions <= 200"));
  EXPECT_THAT(Of("server 0", With(Kind::kSgd, FixedDelaySpec(2, 3))),
              ElementsAre("parameters 40", "optimizer state 0", "contributions <= 160",
                          "older versions <= 320"));
}

}  // namespace
}  // namespace psring
