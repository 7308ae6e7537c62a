// No switch of data-parallel training changes a bit: how a step is exchanged, where the
// optimizer runs, when buckets are launched, and what carries them.
#include <cstdint>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <tuple>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "common/device.h"
#include "common/layout.h"
#include "common/ring_order.h"
#include "common/time_source.h"
#include "gtest/gtest.h"
#include "proto/experiment.pb.h"
#include "ring/ring_exchange.h"
#include "ring/ring_test_util.h"
#include "ring/shared_memory_ranks.h"
#include "tests/parameter_server_cluster.h"
#include "tests/training_test_util.h"
#include "worker/local_exchange.h"
#include "worker/mlp.h"
#include "worker/parameter_server_exchange.h"

namespace psring {
namespace {

// Two states for each element, and constants that change with the step.
Optimizer ScheduledAdam() {
  Optimizer optimizer;
  Adam& adam = *optimizer.mutable_adam();
  adam.set_learning_rate(0.01f);
  adam.set_beta1(0.9f);
  adam.set_beta2(0.999f);
  adam.set_epsilon(1e-8f);
  adam.set_weight_decay(1e-3f);
  optimizer.mutable_schedule()->set_warmup_steps(3);
  return optimizer;
}

struct Plan {
  const char* name;
  int64_t cap_bytes;
  int64_t first_cap_bytes;

  BucketPlan Make() const {
    return PlanBuckets(MlpLayout(TrainedWidths()), cap_bytes, first_cap_bytes);
  }
};

// The smallest tensor has 5 elements: of 6 ranks one has an empty chunk of it.
constexpr Plan kPlans[] = {
    {"EachTensor", 4, 4}, {"SeveralBuckets", 700, 200}, {"OneBucket", 1 << 20, 1 << 20}};

enum class Carrier { kInProcess, kTcp, kSharedMemory, kOutsideSharedMemory, kGrpc };

// Who adds up and runs the optimizer, and what carries it.
struct Way {
  enum Kind { kAllReduce, kSharded, kServers };
  const char* name;
  Kind kind;
  Carrier carrier;
};

constexpr Way kWays[] = {
    {"AllReduceInProcess", Way::kAllReduce, Carrier::kInProcess},
    {"AllReduceOverTcp", Way::kAllReduce, Carrier::kTcp},
    {"AllReduceInSharedMemory", Way::kAllReduce, Carrier::kSharedMemory},
    {"AllReduceThroughSharedMemory", Way::kAllReduce, Carrier::kOutsideSharedMemory},
    {"ShardedInProcess", Way::kSharded, Carrier::kInProcess},
    {"ShardedOverTcp", Way::kSharded, Carrier::kTcp},
    {"ShardedInSharedMemory", Way::kSharded, Carrier::kSharedMemory},
    {"ShardedThroughSharedMemory", Way::kSharded, Carrier::kOutsideSharedMemory},
    {"ServersInProcess", Way::kServers, Carrier::kInProcess},
    {"ServersOverGrpc", Way::kServers, Carrier::kGrpc}};

template <typename AnyCollectives>
std::vector<std::unique_ptr<Collectives>> Any(
    std::vector<std::unique_ptr<AnyCollectives>> collectives) {
  return {std::make_move_iterator(collectives.begin()),
          std::make_move_iterator(collectives.end())};
}

std::vector<uint64_t> TrainRing(const Way& way, const RingOrder& order,
                                TrainingOptions options) {
  std::vector<std::unique_ptr<Collectives>> collectives;
  switch (way.carrier) {
    case Carrier::kTcp:
      collectives = Any(MakeCollectives(TransportKind::kTcp, {.order = order}));
      break;
    case Carrier::kSharedMemory: {
      SharedMemoryRanks ranks =
          MakeSharedMemoryRanks(order, MlpLayout(TrainedWidths()).count());
      options.gradients = ranks.values;
      collectives = Any(std::move(ranks.collectives));
      break;
    }
    case Carrier::kOutsideSharedMemory:
      collectives = Any(MakeSharedMemoryCollectives(order));
      break;
    default:
      collectives = Any(MakeCollectives(TransportKind::kInProcess, {.order = order}));
  }
  options.steps = kSteps;
  const RealTime time;
  return Train(options, [&](int rank) {
    return std::make_unique<RingExchange>(
        options.workers, options.buckets, ScheduledAdam(), ConstantsOf(ScheduledAdam()),
        std::move(collectives[rank]), &time,
        RingExchangeOptions{.shard = way.kind == Way::kSharded
                                         ? std::optional(order.PositionOf(rank))
                                         : std::nullopt});
  });
}

std::vector<uint64_t> TrainServers(Carrier carrier, const RingOrder& order,
                                   const TrainingOptions& options) {
  ParameterServerCluster cluster(
      {.kind = carrier == Carrier::kGrpc ? ChannelKind::kGrpc : ChannelKind::kInProcess,
       .buckets = options.buckets,
       .servers = 2,
       .workers = options.workers,
       .mode = ModeOf("sync { order: RING }"),
       .ring_order = order,
       .optimizer = ScheduledAdam(),
       .steps = kSteps});
  const RealTime time;
  return Train(options, [&](int rank) {
    return std::make_unique<ParameterServerExchange>(rank, cluster.plan(),
                                                     cluster.NewChannels(rank), &time);
  });
}

// The digests of these workers' simplest training with this plan: made once.
const std::vector<uint64_t>& Reference(int workers, const Plan& plan) {
  static std::map<std::pair<int, std::string>, std::vector<uint64_t>>& made =
      *new std::map<std::pair<int, std::string>, std::vector<uint64_t>>;
  const auto [it, is_new] = made.try_emplace({workers, plan.name});
  if (is_new) {
    it->second = TrainRing(kWays[0], Backwards(workers),
                           {.workers = workers, .buckets = plan.Make()});
  }
  return it->second;
}

class SwitchesTest : public testing::TestWithParam<std::tuple<int, Plan, Way, bool>> {};

TEST_P(SwitchesTest, NoneChangesABit) {
  const auto& [workers, plan, way, overlap] = GetParam();
  // Where a rank's chunk is not that of its number.
  const RingOrder order = Backwards(workers);
  const TrainingOptions options = {
      .workers = workers, .buckets = plan.Make(), .overlap = overlap};
  EXPECT_EQ(way.kind == Way::kServers ? TrainServers(way.carrier, order, options)
                                      : TrainRing(way, order, options),
            Reference(workers, plan));
}

std::string NameOf(const testing::TestParamInfo<SwitchesTest::ParamType>& info) {
  const auto& [workers, plan, way, overlap] = info.param;
  return absl::StrCat("N", workers, plan.name, way.name,
                      overlap ? "Overlapped" : "After");
}

INSTANTIATE_TEST_SUITE_P(All, SwitchesTest,
                         testing::Combine(testing::Values(1, 2, 3, 6),
                                          testing::ValuesIn(kPlans),
                                          testing::ValuesIn(kWays), testing::Bool()),
                         &NameOf);

// How far the equality goes: to other plans where a sum has two terms, and not beyond.
TEST(SwitchesScopeTest, OtherBucketsAreTheSameBitsForTwoWorkersAndNoMore) {
  for (const int workers : {1, 2, 3, 6}) {
    const bool equal = Reference(workers, kPlans[0]) == Reference(workers, kPlans[2]);
    EXPECT_EQ(equal, workers <= 2) << workers << " workers";
  }
}

TEST(SwitchesScopeTest, OneWorkerIsTheProcessAlone) {
  const RealTime time;
  const Optimizer optimizer = ScheduledAdam();
  EXPECT_EQ(Train({.workers = 1, .steps = kSteps},
                  [&](int) {
                    return std::make_unique<LocalExchange>(TrainedBuckets(), optimizer,
                                                           ConstantsOf(optimizer), &time);
                  }),
            Reference(1, kPlans[1]));
}

}  // namespace
}  // namespace psring
