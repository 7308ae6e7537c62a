// In the steady state the server's own code allocates nothing, whatever the mode.
//
// What is counted is the shard: taking contributions, updates, parked pulls and answers.
// The messages themselves are made and taken apart by gRPC and protobuf, whose
// allocations cannot be told from those of the code around them.
#include <cstdint>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "common/allocation_count.h"
#include "common/computed_step_constants.h"
#include "common/memory_gauge.h"
#include "common/time_source.h"
#include "glog/logging.h"
#include "google/protobuf/text_format.h"
#include "gtest/gtest.h"
#include "proto/experiment.pb.h"
#include "server/parameter_shard.h"
#include "server/policies.h"

namespace psring {
namespace {

constexpr int kWorkers = 5;
constexpr int64_t kWarmUp = 20;
constexpr int64_t kSteps = 60;
constexpr int64_t kCount = 3001;

void Check(const absl::Status& status) { CHECK(status.ok()) << status; }

// One shard of two slots, and scripted workers whose answers stay where they come.
class Script {
 public:
  explicit Script(const std::string& mode_text) {
    ParameterServerMode mode;
    CHECK(google::protobuf::TextFormat::ParseFromString(mode_text, &mode)) << mode_text;
    ParameterShard::Options options;
    options.slots = {
        {.index = 1, .bucket = 0, .server = 0, .range = {.begin = 0, .count = kCount}},
        {.index = 2, .bucket = 0, .server = 0, .range = {.begin = kCount, .count = 7}}};
    options.bucket_ranges = {{.begin = 0, .count = kCount + 7}};
    options.workers = kWorkers;
    options.stale_updates = mode.stale_updates();
    options.optimizer.mutable_sgd()->set_learning_rate(0.5f);
    options.optimizer.mutable_sgd()->set_momentum(0.9f);
    options.constants =
        std::make_shared<ComputedStepConstants>(options.optimizer, kSteps * kWorkers);
    options.steps = kSteps;
    options.snapshot_interval = kSteps;
    options.time = &time_;
    options.memory = &memory_;
    auto policy = MakePolicy(mode, kWorkers);
    CHECK(policy.ok()) << policy.status();
    shard_ = std::make_unique<ParameterShard>(std::move(options), *std::move(policy));
    for (const int slot : {1, 2}) {
      Check(shard_->Initialize(slot, std::vector<float>(CountOf(slot), 1.0f)));
      for (int rank = 0; rank < kWorkers; ++rank) Pull(rank, /*step=*/0, slot);
    }
  }

  // A worker's exchange of both slots; returns what the shard has allocated for it. The
  // answer, which may come with another worker's push, is read until the next one comes.
  int64_t Exchange(int rank, int64_t step) {
    int64_t allocated = 0;
    for (const int slot : {1, 2}) {
      const auto owner = std::make_shared<const std::vector<float>>(CountOf(slot), 0.25f);
      Contribution contribution{.gradient = *owner, .owner = owner};
      const PushInfo push{.rank = rank,
                          .step = step,
                          .slot = slot,
                          .version = answers_[rank][slot].parameters.version};
      const int64_t before = AllocationsOfThisThread();
      const absl::Status pushed = shard_->Push(push, std::move(contribution));
      allocated += AllocationsOfThisThread() - before;
      Check(pushed);
      allocated += Pull(rank, step + 1, slot);
    }
    return allocated;
  }

  int64_t parked() const { return shard_->parked_pulls(); }
  int64_t older_bytes() { return memory_.Of(memory_purpose::kOlderVersions)->peak(); }

 private:
  static int64_t CountOf(int slot) { return slot == 1 ? kCount : 7; }

  int64_t Pull(int rank, int64_t step, int slot) {
    const int64_t before = AllocationsOfThisThread();
    shard_->Pull({.rank = rank, .step = step, .slot = slot},
                 [answer = &answers_[rank][slot]](absl::StatusOr<PullAnswer> pulled) {
                   Check(pulled.status());
                   *answer = *std::move(pulled);
                 });
    return AllocationsOfThisThread() - before;
  }

  const RealTime time_;
  MemoryGauges memory_;
  std::unique_ptr<ParameterShard> shard_;
  PullAnswer answers_[kWorkers][3];  // By rank and slot; each keeps its version.
};

class ShardAllocationTest : public testing::TestWithParam<const char*> {};

TEST_P(ShardAllocationTest, ASteadyStepAllocatesNothing) {
  Script script(GetParam());
  int64_t allocated = 0, parked = 0;
  for (int64_t step = 0; step < kSteps - 1; ++step) {
    for (int turn = 0; turn < kWorkers; ++turn) {
      // Who comes first changes, but where the mode says who does.
      const int rank = std::string(GetParam()).starts_with("fixed_delay { delay: 4")
                           ? static_cast<int>((turn * 2) % kWorkers)
                           : static_cast<int>((turn + step) % kWorkers);
      const int64_t count = script.Exchange(rank, step);
      if (step >= kWarmUp) allocated += count;
      parked += script.parked();
    }
  }
  EXPECT_EQ(allocated, 0);
  // The path with parked pulls, or the one with versions that are still read.
  EXPECT_TRUE(parked > 0 || script.older_bytes() > 0);
}

INSTANTIATE_TEST_SUITE_P(Modes, ShardAllocationTest,
                         testing::Values("sync { order: RING }", "backup { spares: 0 }",
                                         "backup { spares: 1 }", "bounded { bound: 1 }",
                                         "async {}",
                                         "async {} stale_updates { "
                                         "delay_compensation: 0.5 }",
                                         "fixed_delay { delay: 4 }"));

TEST(AllocationCountTest, Counts) {
  const int64_t before = AllocationsOfThisThread();
  const auto one = std::make_unique<std::vector<int>>(10);
  EXPECT_EQ(AllocationsOfThisThread() - before, 2);
}

}  // namespace
}  // namespace psring
