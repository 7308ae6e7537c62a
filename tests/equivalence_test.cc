// Same work, same bits: the whole training stack of every mode, with ranks as threads,
// must give the same parameters after every step.
#include <cmath>
#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "absl/strings/str_cat.h"
#include "common/cpu_device.h"
#include "common/gradient_exchange.h"
#include "common/layout.h"
#include "common/ring_order.h"
#include "common/status_matchers.h"
#include "common/time_source.h"
#include "google/protobuf/text_format.h"
#include "gtest/gtest.h"
#include "ring/algorithm_by_size.h"
#include "ring/grpc_test_util.h"
#include "ring/ring_exchange.h"
#include "ring/ring_test_util.h"
#include "ring/shared_memory_ranks.h"
#include "ring/transport_collectives.h"
#include "tests/parameter_server_cluster.h"
#include "tests/training_test_util.h"
#include "worker/data_set.h"
#include "worker/local_exchange.h"
#include "worker/mlp.h"
#include "worker/parameter_server_exchange.h"
#include "worker/sampler.h"

namespace psring {
namespace {

std::vector<uint64_t> Train(int workers, std::optional<int64_t> steps,
                            const MakeExchange& make) {
  return Train({.workers = workers, .steps = steps}, make);
}

// `collectives` are every rank's.
template <typename AnyCollectives>
std::vector<uint64_t> TrainCollectives(
    std::vector<std::unique_ptr<AnyCollectives>> collectives,
    const Optimizer& optimizer) {
  const RealTime time;
  const auto workers = static_cast<int>(collectives.size());
  return Train(workers, kSteps, [&](int rank) {
    return std::make_unique<RingExchange>(workers, TrainedBuckets(), optimizer,
                                          ConstantsOf(optimizer),
                                          std::move(collectives[rank]), &time);
  });
}

std::vector<uint64_t> TrainRing(std::vector<std::unique_ptr<Transport>> transports,
                                const CollectiveOptions& options,
                                const Optimizer& optimizer = Momentum()) {
  return TrainCollectives(MakeCollectives(std::move(transports), options), optimizer);
}

std::vector<uint64_t> TrainInSharedMemory(const RingOrder& order) {
  return TrainCollectives(MakeSharedMemoryCollectives(order), Momentum());
}

std::vector<uint64_t> TrainRing(TransportKind kind, const CollectiveOptions& options,
                                const Optimizer& optimizer = Momentum()) {
  return TrainRing(MakeTransports(kind, options.order.ranks()), options, optimizer);
}

std::vector<uint64_t> TrainRing(int workers, TransportKind kind,
                                const Optimizer& optimizer = Momentum()) {
  return TrainRing(kind, {.order = RingOrder(workers)}, optimizer);
}

ParameterServerCluster::Options ClusterOptions(int workers, int servers, ChannelKind kind,
                                               const std::string& mode,
                                               const Optimizer& optimizer) {
  return {.kind = kind,
          .buckets = TrainedBuckets(),
          .layout = MlpLayout(TrainedWidths()),
          .servers = servers,
          .workers = workers,
          .mode = ModeOf(mode),
          .optimizer = optimizer,
          .steps = kSteps};
}

// The smallest window: slot after slot.
constexpr int64_t kOneByOne = 1;

MakeExchange ExchangesWith(ParameterServerCluster& cluster, const TimeSource& time,
                           int64_t window_bytes = kOneByOne) {
  return [&cluster, &time, window_bytes](int rank) {
    return std::make_unique<ParameterServerExchange>(
        rank, cluster.plan(), cluster.NewChannels(rank), &time,
        /*local_server=*/std::nullopt, window_bytes);
  };
}

constexpr char kRingOrder[] = "sync { order: RING }";
constexpr char kRankOrder[] = "sync { order: RANK }";

std::vector<uint64_t> TrainServers(int workers, int servers, ChannelKind kind,
                                   const std::string& mode,
                                   const Optimizer& optimizer = Momentum()) {
  const RealTime time;
  ParameterServerCluster cluster(ClusterOptions(workers, servers, kind, mode, optimizer));
  return Train(workers, std::nullopt, ExchangesWith(cluster, time));
}

class EquivalenceTest : public testing::TestWithParam<int> {};

TEST_P(EquivalenceTest, RingIsTheSameOverEveryTransport) {
  const auto expected = TrainRing(GetParam(), TransportKind::kInProcess);
  for (const TransportKind kind : {TransportKind::kInProcessNarrow, TransportKind::kTcp,
                                   TransportKind::kTcpLanes, TransportKind::kTcpSpin}) {
    EXPECT_EQ(TrainRing(GetParam(), kind), expected) << TransportKindName(kind);
  }
  const CollectiveOptions options = {.order = RingOrder(GetParam())};
  EXPECT_EQ(TrainRing(MakeGrpcTransports<1>(GetParam()), options), expected);
  EXPECT_EQ(TrainRing(MakeGrpcTransports<3>(GetParam()), options), expected);
  EXPECT_EQ(TrainInSharedMemory(options.order), expected);
}

TEST_P(EquivalenceTest, ServersInRingOrderEqualTheRing) {
  const auto expected = TrainRing(GetParam(), TransportKind::kInProcess);
  for (int servers = 1; servers <= 3; ++servers) {
    for (const ChannelKind kind : {ChannelKind::kInProcess, ChannelKind::kGrpc}) {
      EXPECT_EQ(TrainServers(GetParam(), servers, kind, kRingOrder), expected)
          << servers << " servers, " << ChannelKindName(kind);
    }
  }
}

// Which server owns what decides no bit.
TEST_P(EquivalenceTest, ServersInRingOrderEqualTheRingInEveryPlacement) {
  const auto expected = TrainRing(GetParam(), TransportKind::kInProcess);
  for (const char* placement : {"BY_TENSOR_ROUND_ROBIN", "BY_TENSOR_SIZE", "SINGLE"}) {
    const std::string mode = absl::StrCat(kRingOrder, " placement: ", placement);
    for (int servers = 1; servers <= 3; ++servers) {
      for (const ChannelKind kind : {ChannelKind::kInProcess, ChannelKind::kGrpc}) {
        EXPECT_EQ(TrainServers(GetParam(), servers, kind, mode), expected)
            << placement << ", " << servers << " servers, " << ChannelKindName(kind);
      }
    }
  }
}

TEST_P(EquivalenceTest, DelaysChangeNothing) {
  const auto expected = TrainRing(GetParam(), TransportKind::kInProcess);
  EXPECT_EQ(TrainServers(GetParam(), 2, ChannelKind::kDelayed, kRingOrder), expected);
  EXPECT_EQ(TrainRing(GetParam(), TransportKind::kTcpDelayed), expected);
}

// 0, N - 1, ..., 1: the bits are others, and servers follow.
TEST_P(EquivalenceTest, ServersFollowTheOrderOfTheRing) {
  const int workers = GetParam();
  const RingOrder order = Backwards(workers);
  const auto expected = TrainRing(TransportKind::kInProcess, {.order = order});
  EXPECT_EQ(TrainRing(TransportKind::kTcp, {.order = order}), expected);
  EXPECT_EQ(TrainInSharedMemory(order), expected);
  const RealTime time;
  auto options =
      ClusterOptions(workers, 3, ChannelKind::kInProcess, kRingOrder, Momentum());
  options.ring_order = order;
  ParameterServerCluster cluster(options);
  EXPECT_EQ(Train(workers, std::nullopt, ExchangesWith(cluster, time)), expected);
  if (workers > 2) {
    EXPECT_NE(TrainRing(workers, TransportKind::kInProcess), expected);
  }
}

// Each sums in an order of its own, and always in the same one.
TEST_P(EquivalenceTest, EveryAlgorithmGivesTheSameBitsInEveryRun) {
  for (const Algorithm algorithm :
       {RingMode::HALVING_DOUBLING, RingMode::TREE, RingMode::GATHER_BROADCAST}) {
    const CollectiveOptions options = {.order = RingOrder(GetParam()),
                                       .algorithm = algorithm};
    const auto once = TrainRing(TransportKind::kInProcess, options);
    EXPECT_EQ(TrainRing(TransportKind::kTcp, options), once) << algorithm;
    if (GetParam() <= 2) {
      EXPECT_EQ(once, TrainRing(GetParam(), TransportKind::kInProcess));
    }
  }
}

// Of AUTO with these rows.
AlgorithmBySize BySize(const std::string& rows) {
  RingMode settings;
  EXPECT_TRUE(google::protobuf::TextFormat::ParseFromString("algorithm: AUTO " + rows,
                                                            &settings));
  return AlgorithmBySize(settings);
}

// Of buckets of 68, 200, 648 and 2040 bytes.
TEST_P(EquivalenceTest, AlgorithmsBySizeGiveTheSameBitsInEveryRun) {
  const auto ring = TrainRing(GetParam(), TransportKind::kInProcess);
  const CollectiveOptions mixed = {
      .order = RingOrder(GetParam()),
      .algorithm = BySize("choices { up_to_bytes: 300 algorithm: HALVING_DOUBLING }"
                          "choices { up_to_bytes: 700 algorithm: GATHER_BROADCAST }"
                          "choices { algorithm: RING }")};
  const auto once = TrainRing(TransportKind::kInProcess, mixed);
  EXPECT_EQ(TrainRing(TransportKind::kTcp, mixed), once);
  EXPECT_EQ(TrainRing(MakeGrpcTransports<1>(GetParam()), mixed), once);
  if (GetParam() <= 2) {
    EXPECT_EQ(once, ring);
  } else {
    EXPECT_NE(once, ring);
  }
  for (const char* rows : {"choices { algorithm: RING }",
                           "choices { up_to_bytes: 67 algorithm: TREE }"
                           "choices { algorithm: RING }"}) {
    const CollectiveOptions options = {.order = RingOrder(GetParam()),
                                       .algorithm = BySize(rows)};
    EXPECT_EQ(TrainRing(TransportKind::kTcp, options), ring) << rows;
  }
}

// More servers than a bucket has elements: some own nothing of it.
TEST_P(EquivalenceTest, ServersWithoutSlotsChangeNothing) {
  EXPECT_EQ(TrainServers(GetParam(), 60, ChannelKind::kInProcess, kRingOrder),
            TrainRing(GetParam(), TransportKind::kInProcess));
}

TEST_P(EquivalenceTest, RankOrderIsTheSameForAnyNumberOfServers) {
  const auto one = TrainServers(GetParam(), 1, ChannelKind::kInProcess, kRankOrder);
  EXPECT_EQ(TrainServers(GetParam(), 3, ChannelKind::kInProcess, kRankOrder), one);
  // Two terms have one sum; from three on the order shows, or this test sees nothing.
  const auto ring = TrainRing(GetParam(), TransportKind::kInProcess);
  if (GetParam() <= 2) {
    EXPECT_EQ(one, ring);
  } else {
    EXPECT_NE(one, ring);
  }
}

TEST_P(EquivalenceTest, BackupWithoutSparesEqualsTheRing) {
  EXPECT_EQ(TrainServers(GetParam(), 2, ChannelKind::kGrpc, "backup { spares: 0 }"),
            TrainRing(GetParam(), TransportKind::kInProcess));
}

// By rank: they are apart by the order in which they take turns.
std::vector<std::vector<uint64_t>> TrainDelayed(int workers, const std::string& mode,
                                                int servers) {
  const RealTime time;
  ParameterServerCluster cluster(
      ClusterOptions(workers, servers, ChannelKind::kGrpc, mode, Momentum()));
  const auto digests =
      TrainRanks({.workers = workers},
                 ExchangesWith(cluster, time, ParameterServerExchange::kNoWindow));
  for (const auto& rank : digests) EXPECT_EQ(rank.size(), kSteps);
  return digests;
}

TEST_P(EquivalenceTest, AFixedDelayGivesTheSameBitsInEveryRun) {
  for (const int delay : {0, 3}) {
    const std::string mode = absl::StrCat("fixed_delay { delay: ", delay, " }");
    const auto once = TrainDelayed(GetParam(), mode, 2);
    EXPECT_EQ(TrainDelayed(GetParam(), mode, 2), once) << mode;
    EXPECT_EQ(TrainDelayed(GetParam(), mode, 3), once) << mode;
  }
}

INSTANTIATE_TEST_SUITE_P(Workers, EquivalenceTest, testing::Values(1, 2, 3, 4),
                         [](const auto& info) { return absl::StrCat("N", info.param); });

std::vector<uint64_t> TrainLocally(const Optimizer& optimizer) {
  const RealTime time;
  return Train(1, kSteps, [&](int) {
    return std::make_unique<LocalExchange>(TrainedBuckets(), optimizer,
                                           ConstantsOf(optimizer), &time);
  });
}

// Every kind of optimizer, by its text, under a schedule that changes every step.
class OptimizerEquivalenceTest : public testing::TestWithParam<const char*> {
 protected:
  static Optimizer Parse(const std::string& text) {
    Optimizer optimizer;
    EXPECT_TRUE(google::protobuf::TextFormat::ParseFromString(text, &optimizer)) << text;
    return optimizer;
  }
  const Optimizer constant_ = Parse(GetParam());
  const Optimizer scheduled_ = Parse(absl::StrCat(
      GetParam(), " schedule { warmup_steps: 2 cosine { final_factor: 0.1 } }"));
};

TEST_P(OptimizerEquivalenceTest, ServersInRingOrderEqualTheRing) {
  const auto expected = TrainRing(3, TransportKind::kInProcess, scheduled_);
  for (int servers = 1; servers <= 3; ++servers) {
    EXPECT_EQ(TrainServers(3, servers, ChannelKind::kInProcess, kRingOrder, scheduled_),
              expected)
        << servers << " servers";
  }
  // Or this test would not see a schedule that nobody follows.
  EXPECT_NE(TrainRing(3, TransportKind::kInProcess, constant_), expected);
}

TEST_P(OptimizerEquivalenceTest, OneWorkerEqualsTheProcessAlone) {
  const auto local = TrainLocally(scheduled_);
  EXPECT_EQ(TrainRing(1, TransportKind::kInProcess, scheduled_), local);
  for (const char* mode :
       {kRingOrder, "backup { spares: 0 }", "bounded { bound: 0 }",
        "bounded { bound: 2 }", "async {}", "fixed_delay { delay: 0 }"}) {
    EXPECT_EQ(TrainServers(1, 2, ChannelKind::kInProcess, mode, scheduled_), local)
        << mode;
  }
}

INSTANTIATE_TEST_SUITE_P(
    Kinds, OptimizerEquivalenceTest,
    testing::Values(
        "sgd { learning_rate: 0.1 weight_decay: 1e-3 }",
        "sgd { learning_rate: 0.1 momentum: 0.9 weight_decay: 1e-3 }",
        "sgd { learning_rate: 0.1 momentum: 0.9 weight_decay: 1e-3 nesterov: true }",
        "adam { learning_rate: 0.01 beta1: 0.9 beta2: 0.999 epsilon: 1e-8"
        " weight_decay: 1e-3 }",
        "adamw { learning_rate: 0.01 beta1: 0.9 beta2: 0.999 epsilon: 1e-8"
        " weight_decay: 1e-2 }",
        "adagrad { learning_rate: 0.05 epsilon: 1e-10 weight_decay: 1e-3"
        " initial_accumulator: 0.1 }"));

// Gradients of one batch from equal parameters.
std::vector<float> GradientOf(int64_t step, int workers, int rank) {
  const std::unique_ptr<Device> device = MakeCpuDevice();
  Sampler sampler(TrainedData().shape.train_count, kGlobalBatch, kSeed);
  const auto indices = sampler.WorkerBatch(step, workers, rank);
  const auto rows = static_cast<int64_t>(indices.size());
  auto model = MakeMlp(device.get(), TrainedWidths(), rows);
  EXPECT_OK(model);
  const int64_t count = (*model)->layout().count();
  auto parameters = device->Allocate(count);
  auto gradients = device->Allocate(count);
  auto features = device->Allocate(rows * TrainedWidths()[0]);
  EXPECT_OK(features);
  std::vector<int32_t> labels(rows);
  InitializeParameters((*model)->layout(), kSeed, parameters->span().host());
  (*model)->Bind(parameters->span(), gradients->span());
  TrainedData().train.FillBatch(indices, features->span().data, labels.data());
  EXPECT_OK(
      (*model)->Forward({.rows = rows, .features = features->span(), .labels = labels}));
  EXPECT_OK((*model)->Backward([](int) {}));
  const auto values = gradients->span().host();
  return {values.begin(), values.end()};
}

// The mean of the workers' gradients against the gradient of the whole batch in one
// process. Both are sums over the batch of the same per-sample terms in another order,
// divided by its size. A sum of n floats is off by at most n * epsilon/2 times the sum
// of magnitudes, which here is bounded by the gradient of the loss at the logits (at
// most 2 a row), times the weights on the way down and the activations. Each layer adds
// the error of its own sums, of at most max(width, batch) terms, to what comes from
// above: 3 layers, forward and backward.
TEST(ReferenceTest, WorkersTogetherComputeTheGradientOfTheWholeBatch) {
  const std::vector<float> whole = GradientOf(/*step=*/2, 1, 0);
  double magnitude = 0;
  for (const float value : whole) {
    magnitude = std::max(magnitude, std::fabs(static_cast<double>(value)));
  }
  constexpr double kLongestSum = 30;  // Inputs of the first layer; the batch has 24.
  constexpr double kSums = 6;
  const double tolerance = kSums * kLongestSum * 0x1p-24 * std::max(magnitude, 1.0);
  for (int workers = 2; workers <= 4; ++workers) {
    std::vector<double> mean(whole.size());
    for (int rank = 0; rank < workers; ++rank) {
      const std::vector<float> part = GradientOf(/*step=*/2, workers, rank);
      for (size_t i = 0; i < mean.size(); ++i) mean[i] += part[i] / workers;
    }
    for (size_t i = 0; i < mean.size(); ++i) {
      ASSERT_NEAR(whole[i], mean[i], tolerance) << workers << " workers, element " << i;
    }
  }
}

}  // namespace
}  // namespace psring
