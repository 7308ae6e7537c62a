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
#include "common/computed_step_constants.h"
#include "common/cpu_device.h"
#include "common/gradient_exchange.h"
#include "common/layout.h"
#include "common/ring_order.h"
#include "common/status_macros.h"
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
#include "worker/data_set.h"
#include "worker/local_exchange.h"
#include "worker/mlp.h"
#include "worker/parameter_server_exchange.h"
#include "worker/sampler.h"
#include "worker/slowdown.h"
#include "worker/trainer.h"

namespace psring {
namespace {

constexpr int64_t kSteps = 6;
constexpr int64_t kGlobalBatch = 24;  // Divisible by 1, 2, 3 and 4.
constexpr uint64_t kSeed = 11;
const std::vector<int64_t> kWidths = {30, 17, 9, 5};

SampleSet Samples(int64_t count) {
  std::vector<uint8_t> pixels, labels;
  uint32_t state = 5;
  for (int64_t i = 0; i < count * kWidths[0]; ++i) {
    state = state * 1664525u + 1013904223u;
    pixels.push_back(static_cast<uint8_t>(state >> 24));
  }
  for (int64_t i = 0; i < count; ++i) labels.push_back(static_cast<uint8_t>(i % 5));
  return SampleSet(kWidths[0], std::move(pixels), std::move(labels));
}

const DataSet& Data() {
  static const DataSet& data = *new DataSet{.shape = {.train_count = 100,
                                                      .test_count = 1,
                                                      .features = kWidths[0],
                                                      .classes = 5},
                                            .train = Samples(100),
                                            .test = Samples(1)};
  return data;
}

Optimizer Momentum() {
  Optimizer optimizer;
  optimizer.mutable_sgd()->set_learning_rate(0.1f);
  optimizer.mutable_sgd()->set_momentum(0.9f);
  optimizer.mutable_sgd()->set_weight_decay(1e-3f);
  return optimizer;
}

std::shared_ptr<StepConstantsSource> ConstantsOf(const Optimizer& optimizer) {
  return std::make_shared<ComputedStepConstants>(optimizer, kSteps);
}

// Several buckets, none of them of a size that N or S divides.
BucketPlan Buckets() { return PlanBuckets(MlpLayout(kWidths), 700, 200); }

using MakeExchange = std::function<std::unique_ptr<GradientExchange>(int rank)>;

// One rank's training: a worker process without the process. Without `steps` the exchange
// ends it.
absl::Status TrainRank(int rank, int workers, std::optional<int64_t> steps,
                       GradientExchange* exchange, std::vector<uint64_t>* digests) {
  const RealTime time;
  const std::unique_ptr<Device> device = MakeCpuDevice();
  ASSIGN_OR_RETURN(const std::unique_ptr<Model> model,
                   MakeMlp(device.get(), kWidths, kGlobalBatch / workers));
  const int64_t count = model->layout().count();
  ASSIGN_OR_RETURN(const DeviceBuffer parameters, device->Allocate(count));
  ASSIGN_OR_RETURN(const DeviceBuffer gradients, device->Allocate(count));
  if (rank == 0) InitializeParameters(model->layout(), kSeed, parameters.span().host());
  model->Bind(parameters.span(), gradients.span());
  RETURN_IF_ERROR(exchange->Bind(parameters.span(), gradients.span()));
  const BucketPlan buckets = Buckets();
  Sampler sampler(Data().shape.train_count, kGlobalBatch, kSeed);
  Slowdown slowdown(1, time, [](absl::Duration) {});
  Trainer trainer(
      {.rank = rank, .workers = workers, .steps = steps, .digest_interval = 1},
      {.device = device.get(),
       .model = model.get(),
       .exchange = exchange,
       .buckets = &buckets,
       .data = &Data(),
       .sampler = &sampler,
       .time = &time,
       .slowdown = &slowdown,
       .parameters = parameters.span(),
       .gradients = gradients.span()},
      [digests](const StepRecord& step) { digests->push_back(step.parameter_digest()); });
  return trainer.Run();
}

// By rank, the digests after every step.
std::vector<std::vector<uint64_t>> TrainRanks(int workers, std::optional<int64_t> steps,
                                              const MakeExchange& make) {
  std::vector<std::vector<uint64_t>> digests(workers);
  const auto statuses = RunRanks(workers, [&](int rank) {
    const std::unique_ptr<GradientExchange> exchange = make(rank);
    return TrainRank(rank, workers, steps, exchange.get(), &digests[rank]);
  });
  for (const absl::Status& status : statuses) EXPECT_OK(status);
  return digests;
}

// The digests after every step, equal on all ranks.
std::vector<uint64_t> Train(int workers, std::optional<int64_t> steps,
                            const MakeExchange& make) {
  const auto digests = TrainRanks(workers, steps, make);
  for (int rank = 1; rank < workers; ++rank) EXPECT_EQ(digests[rank], digests[0]);
  EXPECT_EQ(digests[0].size(), kSteps);
  return digests[0];
}

// `collectives` are every rank's.
template <typename AnyCollectives>
std::vector<uint64_t> TrainCollectives(
    std::vector<std::unique_ptr<AnyCollectives>> collectives,
    const Optimizer& optimizer) {
  const RealTime time;
  const auto workers = static_cast<int>(collectives.size());
  return Train(workers, kSteps, [&](int rank) {
    return std::make_unique<RingExchange>(workers, Buckets(), optimizer,
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
          .buckets = Buckets(),
          .servers = servers,
          .workers = workers,
          .mode = ModeOf(mode),
          .optimizer = optimizer,
          .steps = kSteps};
}

MakeExchange ExchangesWith(ParameterServerCluster& cluster, const TimeSource& time) {
  return [&cluster, &time](int rank) {
    return std::make_unique<ParameterServerExchange>(rank, cluster.plan(),
                                                     cluster.NewChannels(rank), &time);
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
  const auto digests = TrainRanks(workers, std::nullopt, ExchangesWith(cluster, time));
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
    return std::make_unique<LocalExchange>(Buckets(), optimizer, ConstantsOf(optimizer),
                                           &time);
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
  Sampler sampler(Data().shape.train_count, kGlobalBatch, kSeed);
  const auto indices = sampler.WorkerBatch(step, workers, rank);
  const auto rows = static_cast<int64_t>(indices.size());
  auto model = MakeMlp(device.get(), kWidths, rows);
  EXPECT_OK(model);
  const int64_t count = (*model)->layout().count();
  auto parameters = device->Allocate(count);
  auto gradients = device->Allocate(count);
  auto features = device->Allocate(rows * kWidths[0]);
  EXPECT_OK(features);
  std::vector<int32_t> labels(rows);
  InitializeParameters((*model)->layout(), kSeed, parameters->span().host());
  (*model)->Bind(parameters->span(), gradients->span());
  Data().train.FillBatch(indices, features->span().data, labels.data());
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
