#include "server/shard_checkpoint.h"

#include <stdlib.h>

#include <filesystem>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "common/checkpoint.h"
#include "common/mutex.h"
#include "common/slot_plan.h"
#include "common/status_matchers.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "server/parameter_shard.h"
#include "server/shard_test_util.h"

namespace psring {
namespace {

namespace fs = std::filesystem;
using testing::ElementsAre;
using testing::HasSubstr;

constexpr auto kIgnored = [](int64_t) {};

class ShardCheckpointTest : public ShardTest {
 protected:
  void SetUp() override {
    std::string pattern = absl::StrCat(testing::TempDir(), "/shard_XXXXXX");
    ASSERT_NE(mkdtemp(pattern.data()), nullptr);
    folder_ = pattern;
    optimizer_.mutable_sgd()->set_momentum(0.5f);
    steps_ = 6;
    snapshot_interval_ = 2;
  }
  void TearDown() override { fs::remove_all(folder_); }

  // All slots of a shard that has just been made, from the parameters of both buckets.
  void Initialize(const std::vector<float>& last, const std::vector<float>& first) {
    ASSERT_OK(shard_->Initialize(0, last));
    ASSERT_OK(shard_->Initialize(1, first));
  }
  // As a worker: pulls for the step and pushes it.
  void Step(int rank, int64_t step, float gradient) {
    for (const int slot : {0, 1}) {
      const auto pulled = Pull(rank, step, slot);
      ASSERT_EQ(pulled->done, 1);
      ASSERT_OK(pulled->status);
      ASSERT_OK(PushFrom(pulled->version, rank, step, slot,
                         std::vector<float>(slot == 0 ? 2 : 3, gradient)));
    }
  }

  std::string Write(const std::vector<int64_t>& next_steps, int64_t step) {
    CheckpointOrder order;
    order.set_folder(CheckpointFolder(folder_, step));
    order.set_step(step);
    const auto part = WriteShardPart(order, 0, shard_.get(), kIgnored);
    EXPECT_OK(part);
    CheckpointManifest manifest;
    manifest.mutable_spec()->add_tensors()->add_shape(5);
    manifest.set_step(step);
    for (const int64_t next : next_steps) manifest.add_next_steps(next);
    *manifest.add_parts() = *part;
    EXPECT_OK(WriteCheckpointManifest(order.folder(), manifest));
    return order.folder();
  }

  // A shard that goes on from the checkpoint, whose parameters worker 0 brings.
  void MakeFrom(const std::string& folder, int workers, const std::string& mode) {
    ASSERT_OK_AND_ASSIGN(const Checkpoint checkpoint, Checkpoint::Open(folder));
    Restored restored;
    *restored.mutable_next_steps() = checkpoint.manifest().next_steps();
    restored.set_version(checkpoint.lowest_version());
    start_ = StartOf(restored);
    Make(workers, mode);
    ASSERT_OK(RestoreState(checkpoint, shard_.get()));
    std::vector<float> first(3), last(2);
    ASSERT_OK(checkpoint.ReadParameters(0, first));
    ASSERT_OK(checkpoint.ReadParameters(3, last));
    Initialize(last, first);
  }

  std::string folder_;
};

TEST_F(ShardCheckpointTest, GoesOnAsIfItHadNeverStopped) {
  Make(1);
  Initialize({1, 2}, {3, 4, 5});
  for (int64_t step = 0; step < 3; ++step) Step(0, step, static_cast<float>(step + 1));
  const std::string folder = Write({3}, 3);
  Step(0, 3, 7);
  const std::vector<float> last = Parameters(4, 0);
  const std::vector<float> first = Parameters(4, 1);

  MakeFrom(folder, 1, "sync { order: RANK }");
  EXPECT_EQ(shard_->first_version(), 3);
  // A first pull names no step, and it is payload of no step.
  const auto pulled = Pull(0, 0, 0);
  EXPECT_EQ(pulled->version, 3);
  EXPECT_EQ(pulled->answer.step, 3);
  EXPECT_FALSE(pulled->answer.finished);
  EXPECT_EQ(shard_->traffic().payload_out, 0);
  EXPECT_GT(shard_->traffic().initial_out, 0);
  Step(0, 3, 7);
  EXPECT_EQ(Parameters(4, 0), last);
  EXPECT_EQ(Parameters(4, 1), first);
}

// Where each push is applied, clocks and what is left of the run are those of each
// worker.
TEST_F(ShardCheckpointTest, EachWorkerGoesOnFromItsOwnStep) {
  Make(2, "bounded { bound: 2 }");
  Initialize({1, 2}, {3, 4, 5});
  Step(0, 0, 1);
  Step(1, 0, 1);
  Step(0, 1, 1);
  const std::string folder = Write({2, 1}, 1);
  contributions_.clear();

  MakeFrom(folder, 2, "bounded { bound: 2 }");
  EXPECT_EQ(shard_->first_version(), 3);
  const auto fast = Pull(0, 0, 0);
  const auto slow = Pull(1, 0, 0);
  EXPECT_EQ(fast->answer.step, 2);
  EXPECT_EQ(slow->answer.step, 1);
  // Of 12 contributions 3 have been made, and 2 more may be begun at once.
  Step(0, 2, 1);
  Step(0, 3, 1);  // Three ahead at its push.
  const auto parked = Pull(0, 4, 0);
  EXPECT_EQ(parked->done, 0);
  Step(1, 1, 1);
  Step(1, 2, 1);
  EXPECT_EQ(parked->done, 1);
  ASSERT_EQ(contributions_.size(), 8);
  EXPECT_EQ(contributions_[0].version(), 3);
  EXPECT_EQ(contributions_[0].step(), 2);
  int64_t made = 7;
  for (int64_t step = 3; made < 12; ++step) {
    Step(1, step, 1);
    ++made;
    if (made < 12) {
      Step(0, step + 1, 1);
      ++made;
    }
  }
  const auto over = Pull(0, 6, 0);
  EXPECT_TRUE(over->answer.finished);
  // Snapshots are of steps of all workers, and none of those before.
  EXPECT_OK(shard_->Snapshot({.rank = 0, .step = 2, .slot = 0}));
  EXPECT_OK(shard_->Snapshot({.rank = 0, .step = 6, .slot = 0}));
  EXPECT_FALSE(shard_->Snapshot({.rank = 0, .step = 1, .slot = 0}).ok());
}

TEST_F(ShardCheckpointTest, AnotherOptimizersStateIsRefused) {
  Make(1);
  Initialize({1, 2}, {3, 4, 5});
  const std::string folder = Write({0}, 0);
  ASSERT_OK_AND_ASSIGN(const Checkpoint checkpoint, Checkpoint::Open(folder));
  optimizer_.mutable_sgd()->set_momentum(0);
  Make(1);
  EXPECT_THAT(RestoreState(checkpoint, shard_.get()),
              StatusIs(absl::StatusCode::kFailedPrecondition,
                       HasSubstr("has 1 floats of optimizer state")));
}

TEST_F(ShardCheckpointTest, TheSaverWritesOncePerRoundAndSaysWhatFails) {
  Make(1);
  Initialize({1, 2}, {3, 4, 5});
  Mutex mutex;
  CondVar changed;
  std::vector<std::string> said;
  const auto say = [&](const std::string& text) {
    MutexLock lock(&mutex);
    said.push_back(text);
    changed.NotifyAll();
  };
  const auto await = [&](size_t count) {
    MutexLock lock(&mutex);
    while (said.size() < count) changed.Wait(&mutex);
    return said;
  };
  const std::shared_ptr<ParameterShard> shard = std::move(shard_);
  ShardSaver saver(
      3, shard,
      [&](const CheckpointReply& reply) {
        say(absl::StrCat("saved ", reply.file().name(), " in ", reply.round()));
      },
      [&](const absl::Status& status) { say(std::string(status.message())); });
  CheckpointOrder order;
  order.set_kind(CheckpointOrder::HOLD);
  order.set_round(1);
  saver.Order(order);
  order.set_kind(CheckpointOrder::SAVE);
  order.set_folder(CheckpointFolder(folder_, 1));
  saver.Order(order);
  EXPECT_THAT(await(1), ElementsAre("saved server-3 in 1"));
  EXPECT_GT(saver.bytes(), 0);
  saver.Order(order);  // Again.
  order.set_round(2);
  order.set_folder("/dev/null/nowhere");
  saver.Order(order);
  EXPECT_THAT(await(2)[1], HasSubstr("/dev/null/nowhere"));
}

}  // namespace
}  // namespace psring
