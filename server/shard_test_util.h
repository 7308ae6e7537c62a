// What the tests of a parameter shard have in common.
#ifndef PSRING_SERVER_SHARD_TEST_UTIL_H_
#define PSRING_SERVER_SHARD_TEST_UTIL_H_

#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "common/computed_step_constants.h"
#include "common/layout.h"
#include "common/memory_gauge.h"
#include "common/mutex.h"
#include "common/slot_plan.h"
#include "common/status_matchers.h"
#include "common/time_source.h"
#include "google/protobuf/text_format.h"
#include "gtest/gtest.h"
#include "server/parameter_shard.h"
#include "server/policies.h"

namespace psring {

inline Contribution Own(std::vector<float> gradient) {
  const auto owner = std::make_shared<const std::vector<float>>(std::move(gradient));
  return {.gradient = *owner, .owner = owner};
}

// What became of a pull. Shared with the shard, which may outlive the test's interest.
struct PullOutcome {
  int done = 0;  // Times.
  absl::Status status;
  int64_t version = -1;
  std::vector<float> parameters;
  PullAnswer answer;  // Without the parameters.
};

// A clock that stands still until it is told, or goes on by `tick` with each look at it.
class ManualTime final : public TimeSource {
 public:
  absl::Duration Elapsed() const override { return now += tick; }
  mutable absl::Duration now = absl::ZeroDuration();
  absl::Duration tick = absl::ZeroDuration();
};

// Two buckets on `servers` servers; the shard is server `server`'s. With one server,
// slot 0 is bucket 0 (2 elements) and slot 1 is bucket 1 (`count` elements). Plain SGD
// with learning rate 1/2, unless a test changes `optimizer_`.
class ShardTest : public testing::Test {
 protected:
  // Steps for which there are constants.
  static constexpr int64_t kRun = 100;

  ShardTest() { optimizer_.mutable_sgd()->set_learning_rate(0.5f); }

  // `mode` as in ParameterServerMode, in text.
  void Make(int workers, const std::string& mode = "sync { order: RANK }",
            int64_t count = 3, int servers = 1, int server = 0) {
    ParameterLayout layout;
    layout.Add("first", {count});
    layout.Add("last", {2});
    buckets_ = PlanBuckets(layout, /*cap_bytes=*/4, /*first_cap_bytes=*/4);
    plan_ = PlanStripedSlots(buckets_, servers);
    ParameterServerMode settings;
    ASSERT_TRUE(google::protobuf::TextFormat::ParseFromString(mode, &settings)) << mode;
    ParameterShard::Options options = ParameterShard::OptionsFor(buckets_, plan_, server);
    options.workers = workers;
    options.local_worker = local_worker_;
    options.order = settings.sync().order();
    options.stale_updates = settings.stale_updates();
    options.optimizer = optimizer_;
    options.constants = constants_ != nullptr
                            ? constants_
                            : std::make_shared<ComputedStepConstants>(optimizer_, kRun);
    options.steps = steps_;
    options.snapshot_interval = snapshot_interval_;
    options.start = start_;
    options.time = &time_;
    options.memory = &memory_;
    options.on_contribution = [this](const ContributionRecord& contribution) {
      {
        MutexLock lock(&mutex_);
        contributions_.push_back(contribution);
      }
      if (heard_) heard_(contribution);
    };
    ASSERT_OK_AND_ASSIGN(auto policy, MakePolicy(settings, workers));
    shard_ = std::make_unique<ParameterShard>(options, std::move(policy));
  }

  absl::Status Push(int rank, int64_t step, int slot, std::vector<float> gradient) {
    return PushFrom(/*version=*/0, rank, step, slot, std::move(gradient));
  }
  // Of a gradient that was computed from `version`.
  absl::Status PushFrom(int64_t version, int rank, int64_t step, int slot,
                        std::vector<float> gradient) {
    return shard_->Push({.rank = rank, .step = step, .slot = slot, .version = version},
                        Own(std::move(gradient)));
  }
  std::shared_ptr<PullOutcome> Pull(int rank, int64_t step, int slot,
                                    PullTicket* ticket = nullptr) {
    auto pulled = std::make_shared<PullOutcome>();
    const PullTicket pull =
        shard_->Pull({.rank = rank, .step = step, .slot = slot},
                     [pulled](const absl::StatusOr<PullAnswer>& answer) {
                       ++pulled->done;
                       pulled->status = answer.status();
                       if (!answer.ok()) return;
                       pulled->version = answer->parameters.version;
                       const auto values = answer->parameters.values;
                       pulled->parameters.assign(values.begin(), values.end());
                       pulled->answer = *answer;
                       pulled->answer.parameters = {};
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

  BucketPlan buckets_;
  SlotPlan plan_;
  Optimizer optimizer_;
  std::optional<int> local_worker_;
  std::shared_ptr<StepConstantsSource> constants_;  // Where not computed.
  int64_t steps_ = 0;
  int64_t snapshot_interval_ = 0;
  std::optional<ShardStart> start_;
  ManualTime time_;
  MemoryGauges memory_;
  Mutex mutex_;
  std::vector<ContributionRecord> contributions_;  // Read while no call is running.
  // Called after that, with the slot locked.
  std::function<void(const ContributionRecord&)> heard_;
  std::unique_ptr<ParameterShard> shard_;
};

}  // namespace psring

#endif  // PSRING_SERVER_SHARD_TEST_UTIL_H_
