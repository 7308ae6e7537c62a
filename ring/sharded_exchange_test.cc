// What ranks do together whose optimizer is sharded.
#include <cstdint>
#include <memory>
#include <optional>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "common/computed_step_constants.h"
#include "common/errors.h"
#include "common/layout.h"
#include "common/memory_gauge.h"
#include "common/mutex.h"
#include "common/partition.h"
#include "common/ring_order.h"
#include "common/status_macros.h"
#include "common/status_matchers.h"
#include "common/time_source.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "proto/experiment.pb.h"
#include "ring/algorithm.h"
#include "ring/collectives.h"
#include "ring/ring_exchange.h"
#include "ring/ring_test_util.h"
#include "ring/small_buckets_test_util.h"

namespace psring {
namespace {

using testing::AllOf;
using testing::Each;
using testing::HasSubstr;

constexpr int64_t kSteps = 3;

// Ends its rank when it comes to the all-gather of a bucket, as if it was killed: the
// others find its connections closed, without a word.
class MortalCollectives final : public Collectives {
 public:
  MortalCollectives(std::unique_ptr<Collectives> inner, int64_t step, int bucket)
      : inner_(std::move(inner)), step_(step), bucket_(bucket) {}

  absl::Status AllReduce(OperationTag tag, Elements values) override {
    return inner_->AllReduce(tag, values);
  }
  absl::Status ReduceScatter(OperationTag tag, Elements values) override {
    return inner_->ReduceScatter(tag, values);
  }
  absl::Status AllGather(OperationTag tag, Elements values) override {
    if (tag.step != step_ || tag.bucket != bucket_) return inner_->AllGather(tag, values);
    MutexLock lock(&mutex_);
    inner_.reset();
    return absl::InternalError("died as planned");
  }
  absl::Status Broadcast(DeviceSpan values) override { return inner_->Broadcast(values); }
  absl::Status Barrier() override { return inner_->Barrier(); }
  void Abort(absl::Status reason) override {
    MutexLock lock(&mutex_);
    if (inner_ != nullptr) inner_->Abort(std::move(reason));
  }
  ExchangeTraffic traffic() const override { return {}; }
  // Called by the thread that resets it.
  absl::Duration working() const override {
    return inner_ == nullptr ? absl::ZeroDuration() : inner_->working();
  }
  std::string Awaited() const override { return ""; }

 private:
  Mutex mutex_;
  std::unique_ptr<Collectives> inner_;  // Reset by the thread of operations, locked.
  const int64_t step_;
  const int bucket_;
};

// Of several ranks, each with the same gradients.
class ShardedRanksTest : public testing::TestWithParam<Algorithm> {
 protected:
  struct Rank {
    std::vector<float> parameters = std::vector<float>(kSmallCount, 1.0f);
    std::vector<float> gradients = std::vector<float>(kSmallCount);
    std::shared_ptr<MemoryGauge> state_memory = std::make_shared<MemoryGauge>();
    std::unique_ptr<RingExchange> exchange;
  };

  std::vector<std::unique_ptr<Collectives>> Linked(const RingOrder& order) {
    std::vector<std::unique_ptr<Collectives>> collectives;
    for (auto& of_rank : MakeCollectives(TransportKind::kTcp,
                                         {.order = order, .algorithm = GetParam()})) {
      collectives.push_back(std::move(of_rank));
    }
    return collectives;
  }
  std::vector<Rank> MakeRanks(std::vector<std::unique_ptr<Collectives>> collectives,
                              const RingOrder& order, bool sharded) {
    std::vector<Rank> ranks(order.ranks());
    for (int rank = 0; rank < order.ranks(); ++rank) {
      ranks[rank].exchange = std::make_unique<RingExchange>(
          order.ranks(), plan_, SmallAdam(),
          std::make_shared<ComputedStepConstants>(SmallAdam(), kSteps),
          std::move(collectives[rank]), &time_,
          RingExchangeOptions{
              .shard = sharded ? std::optional(order.PositionOf(rank)) : std::nullopt,
              .state_memory = ranks[rank].state_memory});
    }
    return ranks;
  }
  absl::Status Train(Rank& rank) {
    RETURN_IF_ERROR(rank.exchange->Bind(SpanOf(rank.parameters), SpanOf(rank.gradients)));
    for (int64_t step = 0; step < kSteps; ++step) {
      for (int64_t i = 0; i < kSmallCount; ++i) {
        rank.gradients[i] = static_cast<float>(i - 3) + static_cast<float>(step);
      }
      for (const Bucket& bucket : plan_.buckets) {
        RETURN_IF_ERROR(rank.exchange->Launch(step, bucket, ReadyEvent::Happened()));
      }
      RETURN_IF_ERROR(rank.exchange->Finish(step).status());
    }
    return absl::OkStatus();
  }

  const BucketPlan plan_ = SmallBuckets();
  const RealTime time_;
};

// With five ranks there are empty chunks in every bucket, and ranks that update nothing
// of most.
TEST_P(ShardedRanksTest, TrainAsAllTogetherDo) {
  for (const int ranks : {1, 2, 3, 5}) {
    const RingOrder order = Backwards(ranks);
    std::vector<std::vector<float>> trained;
    for (const bool sharded : {false, true}) {
      std::vector<Rank> all = MakeRanks(Linked(order), order, sharded);
      const auto statuses = RunRanks(ranks, [&](int rank) { return Train(all[rank]); });
      ASSERT_THAT(statuses, Each(IsOk()));
      for (const Rank& rank : all) trained.push_back(rank.parameters);
    }
    EXPECT_NE(trained[0], std::vector<float>(kSmallCount, 1.0f));
    // Of equal integers every order of additions makes the same sum.
    EXPECT_THAT(trained, Each(trained[0])) << ranks << " ranks";
  }
}

TEST_P(ShardedRanksTest, ARankKeepsTheStateOfItsChunksAlone) {
  for (const int ranks : {1, 3, 5}) {
    const RingOrder order = Backwards(ranks);
    const std::vector<Rank> all = MakeRanks(Linked(order), order, /*sharded=*/true);
    int64_t together = 0;
    for (int rank = 0; rank < ranks; ++rank) {
      int64_t own = 0;
      for (const Bucket& bucket : plan_.buckets) {
        own += PartitionRange(bucket.range.count, ranks, order.PositionOf(rank)).count;
      }
      EXPECT_EQ(all[rank].state_memory->now(), 2 * sizeof(float) * own);
      together += all[rank].state_memory->now();
    }
    EXPECT_EQ(together, 2 * sizeof(float) * kSmallCount);
  }
}

// The others are in the all-gather, and have the words of any other lost rank.
TEST_P(ShardedRanksTest, ARankThatDiesBeforeTheAllGatherIsNamedByAllOthers) {
  constexpr int kRanks = 3;
  constexpr int kMortal = 1;
  const RingOrder order(kRanks);
  auto collectives = Linked(order);
  collectives[kMortal] = std::make_unique<MortalCollectives>(
      std::move(collectives[kMortal]), /*step=*/1, /*bucket=*/1);
  std::vector<Rank> all = MakeRanks(std::move(collectives), order, /*sharded=*/true);
  const auto statuses = RunRanks(kRanks, [&](int rank) { return Train(all[rank]); });
  EXPECT_THAT(statuses[kMortal],
              StatusIs(absl::StatusCode::kInternal, HasSubstr("as planned")));
  for (const int rank : {0, 2}) {
    EXPECT_THAT(
        statuses[rank],
        StatusIs(absl::StatusCode::kUnavailable,
                 AllOf(HasSubstr("of bucket 1 ("), HasSubstr("at step 1"),
                       HasSubstr("worker 1"), HasSubstr("closed the connection"))));
    EXPECT_EQ(ExitCodeOf(statuses[rank]), ExitCode::kPeerLost);
  }
}

INSTANTIATE_TEST_SUITE_P(Algorithms, ShardedRanksTest,
                         testing::Values(RingMode::RING, RingMode::HALVING_DOUBLING,
                                         RingMode::TREE, RingMode::GATHER_BROADCAST),
                         [](const auto& info) {
                           return RingMode::Algorithm_Name(info.param);
                         });

}  // namespace
}  // namespace psring
