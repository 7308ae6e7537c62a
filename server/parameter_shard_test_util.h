// A parameter shard under test, with what its tests do to it.
#ifndef PSRING_SERVER_PARAMETER_SHARD_TEST_UTIL_H_
#define PSRING_SERVER_PARAMETER_SHARD_TEST_UTIL_H_

#include <cstdint>
#include <functional>
#include <memory>
#include <utility>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "common/computed_step_constants.h"
#include "common/layout.h"
#include "common/slot_plan.h"
#include "common/status_matchers.h"
#include "common/step_constants.h"
#include "gtest/gtest.h"
#include "proto/experiment.pb.h"
#include "server/parameter_shard.h"
#include "server/sync_policy.h"

namespace psring {

inline Contribution Own(std::vector<float> gradient) {
  const auto owner = std::make_shared<const std::vector<float>>(std::move(gradient));
  return {.gradient = *owner, .owner = owner};
}

// What became of a pull. Shared with the shard, which may outlive the test's interest.
struct Pulled {
  int done = 0;  // Times.
  absl::Status status;
  int64_t version = -1;
  std::vector<float> parameters;
};

inline constexpr int64_t kRun = 100;  // Steps for which there are constants.

// Two buckets on `servers` servers; the shard is server `server`'s. With one server,
// slot 0 is bucket 0 (2 elements) and slot 1 is bucket 1 (`count` elements).
class ParameterShardTest : public testing::Test {
 protected:
  void Make(int workers, Sync::Order order = Sync::RANK, int64_t count = 3,
            int servers = 1, int server = 0, float momentum = 0) {
    workers_ = workers;
    order_ = order;
    ParameterLayout layout;
    layout.Add("first", {count});
    layout.Add("last", {2});
    buckets_ = PlanBuckets(layout, /*cap_bytes=*/4, /*first_cap_bytes=*/4);
    plan_ = PlanStripedSlots(buckets_, servers);
    ParameterShard::Options options = ParameterShard::OptionsFor(buckets_, plan_, server);
    options.workers = workers;
    options.order = order;
    options.optimizer.mutable_sgd()->set_learning_rate(0.5f);
    options.optimizer.mutable_sgd()->set_momentum(momentum);
    optimizer_ = options.optimizer;
    options.constants = constants_ != nullptr
                            ? constants_
                            : std::make_shared<ComputedStepConstants>(optimizer_, kRun);
    options.on_update = on_update_;
    shard_ =
        std::make_unique<ParameterShard>(options, std::make_unique<const SyncPolicy>());
  }

  absl::Status Push(int rank, int64_t step, int slot, std::vector<float> gradient) {
    return shard_->Push({.rank = rank, .step = step, .slot = slot},
                        Own(std::move(gradient)));
  }
  std::shared_ptr<Pulled> Pull(int rank, int64_t step, int slot,
                               PullTicket* ticket = nullptr) {
    auto pulled = std::make_shared<Pulled>();
    const PullTicket pull = shard_->Pull(
        {.rank = rank, .step = step, .slot = slot},
        [pulled](const absl::StatusOr<PullAnswer>& answer) {
          ++pulled->done;
          pulled->status = answer.status();
          if (!answer.ok()) return;
          pulled->version = answer->version;
          pulled->parameters.assign(answer->parameters.begin(), answer->parameters.end());
        });
    if (ticket != nullptr) *ticket = pull;
    return pulled;
  }
  std::vector<float> Parameters(int64_t version, int slot) {
    const auto pulled = Pull(0, version, slot);
    EXPECT_EQ(pulled->done, 1);
    EXPECT_OK(pulled->status);
    EXPECT_EQ(pulled->version, version);
    return pulled->parameters;
  }

  int workers_ = 0;
  Sync::Order order_ = Sync::RANK;
  BucketPlan buckets_;
  SlotPlan plan_;
  Optimizer optimizer_;
  std::shared_ptr<StepConstantsSource> constants_;  // Where not computed.
  std::function<void(const AppliedUpdate&)> on_update_;
  std::unique_ptr<ParameterShard> shard_;
};

}  // namespace psring

#endif  // PSRING_SERVER_PARAMETER_SHARD_TEST_UTIL_H_
