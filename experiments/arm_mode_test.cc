#include "experiments/arm_mode.h"

#include <string>
#include <utility>
#include <vector>

#include "experiments/arm_result_test_util.h"
#include "google/protobuf/text_format.h"
#include "gtest/gtest.h"

namespace psring {
namespace {

JobSpec Parse(const std::string& mode) {
  JobSpec spec = AsyncSpec(4);
  spec.mutable_arm()->clear_parameter_server();
  EXPECT_TRUE(google::protobuf::TextFormat::ParseFromString(
      mode, spec.mutable_arm()->mutable_parameter_server()))
      << mode;
  return spec;
}

TEST(ArmModeTest, NamesOfModes) {
  EXPECT_EQ(ModeOf(RingSpec(3)), "ring all-reduce");
  EXPECT_EQ(ModeOf(LocalSpec()), "local");
  for (const auto& [mode, name] : std::vector<std::pair<std::string, std::string>>{
           {"", "sync, ring order"},
           {"sync {}", "sync, ring order"},
           {"sync { order: RANK }", "sync, rank order"},
           {"backup { spares: 1 }", "backup(1)"},
           {"backup {}", "backup(0)"},
           {"bounded { bound: 4 }", "bounded(4)"},
           {"async {}", "async"},
           {"fixed_delay { delay: 3 }", "fixed_delay(3)"},
           {"async {} stale_updates {}", "async"},
           {"placement: STRIPED", "sync, ring order"},
           {"placement: SINGLE", "sync, ring order, placed SINGLE"},
           {"async {} placement: BY_TENSOR_SIZE stale_updates { scale: ONE }",
            "async, scale ONE, placed BY_TENSOR_SIZE"},
           {"async {} stale_updates { scale: ONE }", "async, scale ONE"},
           {"bounded {} stale_updates { scale: INVERSE_STALENESS"
            " delay_compensation: 0.04 drop_above: 0 }",
            "bounded(0), scale INVERSE_STALENESS, delay compensation 0.04, drop above 0"},
       }) {
    EXPECT_EQ(ModeOf(Parse(mode)), "parameter server, " + name);
  }
}

TEST(ArmModeTest, PromisesAreThePolicys) {
  EXPECT_EQ(PromiseOf(RingSpec(3)), std::nullopt);
  EXPECT_EQ(PromiseOf(LocalSpec()), std::nullopt);
  EXPECT_EQ(PromiseOf(ServersSpec(3, 1, Sync::RING))->contributions_per_update, 3);
  EXPECT_EQ(PromiseOf(BackupSpec(3, 1))->contributions_per_update, 2);
  EXPECT_EQ(PromiseOf(BoundedSpec(3, 7))->clock_lag, 7);
}

TEST(ArmModeTest, SaysWhatGradientsAreOnTheWire) {
  JobSpec spec = RingSpec(3);
  spec.mutable_arm()->mutable_wire()->mutable_fp32();
  EXPECT_EQ(ModeOf(spec), "ring all-reduce");
  spec.mutable_arm()->mutable_wire()->mutable_bf16();
  EXPECT_EQ(ModeOf(spec), "ring all-reduce, gradients as bf16");
  spec = AsyncSpec(3);
  spec.mutable_arm()->mutable_wire()->mutable_top_k()->set_share(0.25);
  EXPECT_EQ(ModeOf(spec), "parameter server, async, gradients as top_k 0.25");
}

TEST(ArmModeTest, LockstepIsOneSetOfParametersForAll) {
  for (const JobSpec& spec :
       {RingSpec(3), LocalSpec(), ServersSpec(3, 1, Sync::RANK), BackupSpec(3, 0)}) {
    EXPECT_TRUE(InLockstep(spec)) << ModeOf(spec);
  }
  for (const JobSpec& spec :
       {BackupSpec(3, 1), BoundedSpec(3, 0), AsyncSpec(3), FixedDelaySpec(3, 0)}) {
    EXPECT_FALSE(InLockstep(spec)) << ModeOf(spec);
  }
}

TEST(ArmModeTest, DescribesWhatDiffersBetweenArms) {
  std::vector<JobSpec> arms = {RingSpec(2), AsyncSpec(1), ServersSpec(4, 2, Sync::RANK)};
  for (JobSpec& spec : arms) {
    spec.mutable_experiment()
        ->mutable_training()
        ->mutable_optimizer()
        ->mutable_sgd()
        ->set_learning_rate(0.5f);
  }
  EXPECT_EQ(DescribeArms(arms),
            "arm ring: ring all-reduce; 2 workers\n"
            "arm async: parameter server, async; 1 worker, 1 server\n"
            "arm servers by rank: parameter server, sync, rank order; 4 workers, 2 "
            "servers\n");
  arms[1]
      .mutable_experiment()
      ->mutable_training()
      ->mutable_optimizer()
      ->mutable_sgd()
      ->set_momentum(0.9f);
  EXPECT_EQ(DescribeArms({arms[0], arms[1]}),
            "arm ring: ring all-reduce; 2 workers; sgd { learning_rate: 0.5 }\n"
            "arm async: parameter server, async; 1 worker, 1 server; sgd { "
            "learning_rate: 0.5 momentum: 0.9 }\n");
  arms[2].mutable_experiment()->mutable_buckets()->set_overlap(true);
  EXPECT_EQ(DescribeArms({arms[0], arms[2]}),
            "arm ring: ring all-reduce; 2 workers; buckets { cap_bytes: 28 "
            "first_cap_bytes: 12 }\n"
            "arm servers by rank: parameter server, sync, rank order; 4 workers, 2 "
            "servers; buckets { cap_bytes: 28 first_cap_bytes: 12 overlap: true }\n");
}

}  // namespace
}  // namespace psring
