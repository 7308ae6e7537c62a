// What a step is made of: micro-batches, epochs that do not come out even, branches that
// some workers do not use. A ring and servers must give the bits of one process that
// computes the same sums, after every step.
#include <algorithm>
#include <cmath>
#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <set>
#include <span>
#include <string>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "common/computed_step_constants.h"
#include "common/contributors.h"
#include "common/cpu_device.h"
#include "common/digest.h"
#include "common/gradient_exchange.h"
#include "common/layout.h"
#include "common/optimizer.h"
#include "common/partition.h"
#include "common/ring_order.h"
#include "common/schedule.h"
#include "common/status_macros.h"
#include "common/status_matchers.h"
#include "common/time_source.h"
#include "gtest/gtest.h"
#include "ring/ring_exchange.h"
#include "ring/ring_test_util.h"
#include "ring/transport_collectives.h"
#include "tests/parameter_server_cluster.h"
#include "worker/data_set.h"
#include "worker/local_exchange.h"
#include "worker/mlp.h"
#include "worker/pace.h"
#include "worker/parameter_server_exchange.h"
#include "worker/sampler.h"
#include "worker/trainer.h"

namespace psring {
namespace {

// Two whole batches and 18 samples, which are one of two workers' parts, two of three
// workers' and three of four workers'.
constexpr int64_t kSamples = 66;
constexpr int64_t kGlobalBatch = 24;
constexpr int64_t kSteps = 7;
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
  static const DataSet& data = *new DataSet{.shape = {.train_count = kSamples,
                                                      .test_count = 1,
                                                      .features = kWidths[0],
                                                      .classes = 5},
                                            .train = Samples(kSamples),
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

struct Case {
  int workers = 1;
  int64_t passes = 1;
  int64_t branches = 1;
  // Workers that have a third step of each epoch; 0: nobody.
  int joining = 0;

  int64_t rows() const { return kGlobalBatch / workers; }
  Contributors contributors() const {
    return joining == 0 ? Contributors(workers) : Contributors(workers, 3, joining);
  }
  Sampler MakeSampler() const {
    return Sampler(kSamples, kGlobalBatch, kSeed, joining * rows());
  }
  // Several buckets, none of them of a size that workers or servers divide.
  BucketPlan Buckets() const {
    return PlanBuckets(MlpLayout(kWidths, branches), 700, 200);
  }
};

// What a rank has said of its steps.
struct RankSteps {
  std::vector<uint64_t> digests;
  std::vector<int64_t> samples;
  std::vector<double> losses;
};

absl::Status TrainRank(const Case& c, int rank, std::optional<int64_t> steps,
                       GradientExchange* exchange, RankSteps* made) {
  const RealTime time;
  const std::unique_ptr<Device> device = MakeCpuDevice();
  ASSIGN_OR_RETURN(const std::unique_ptr<Model> model,
                   MakeMlp(device.get(), kWidths, c.rows() / c.passes, c.branches));
  const int64_t count = model->layout().count();
  ASSIGN_OR_RETURN(const DeviceBuffer parameters, device->Allocate(count));
  ASSIGN_OR_RETURN(const DeviceBuffer gradients, device->Allocate(count));
  if (rank == 0) InitializeParameters(model->layout(), kSeed, parameters.span().host());
  model->Bind(parameters.span(), gradients.span());
  RETURN_IF_ERROR(exchange->Bind(parameters.span(), gradients.span()));
  const BucketPlan buckets = c.Buckets();
  Sampler sampler = c.MakeSampler();
  Pace pace({}, &time, [](absl::Duration) { return absl::OkStatus(); });
  Trainer trainer({.rank = rank,
                   .workers = c.workers,
                   .rows = c.rows(),
                   .micro_batches = c.passes,
                   .steps = steps,
                   .digest_interval = 1},
                  {.device = device.get(),
                   .model = model.get(),
                   .exchange = exchange,
                   .buckets = &buckets,
                   .data = &Data(),
                   .sampler = &sampler,
                   .time = &time,
                   .pace = &pace,
                   .parameters = parameters.span(),
                   .gradients = gradients.span()},
                  [made](const StepRecord& step) {
                    made->digests.push_back(step.parameter_digest());
                    made->samples.push_back(step.samples());
                    made->losses.push_back(step.loss());
                  });
  return trainer.Run();
}

using MakeExchange = std::function<std::unique_ptr<GradientExchange>(int rank)>;

std::vector<RankSteps> TrainRanks(const Case& c, std::optional<int64_t> steps,
                                  const MakeExchange& make) {
  std::vector<RankSteps> made(c.workers);
  // Nobody goes while others still need it.
  std::vector<std::unique_ptr<GradientExchange>> exchanges(c.workers);
  const auto statuses = RunRanks(c.workers, [&](int rank) {
    exchanges[rank] = make(rank);
    return TrainRank(c, rank, steps, exchanges[rank].get(), &made[rank]);
  });
  for (const absl::Status& status : statuses) EXPECT_OK(status);
  for (int rank = 1; rank < c.workers; ++rank) {
    EXPECT_EQ(made[rank].digests, made[0].digests) << "rank " << rank;
  }
  EXPECT_EQ(made[0].digests.size(), kSteps);
  return made;
}

std::shared_ptr<StepConstantsSource> Constants() {
  return std::make_shared<ComputedStepConstants>(Momentum(), kSteps);
}

std::vector<RankSteps> TrainRing(const Case& c,
                                 const std::optional<Contributors>& contributors) {
  const RealTime time;
  auto collectives =
      MakeCollectives(TransportKind::kInProcess, {.order = RingOrder(c.workers)});
  return TrainRanks(c, kSteps, [&](int rank) {
    return std::make_unique<RingExchange>(
        c.workers, c.Buckets(), Momentum(), Constants(), std::move(collectives[rank]),
        &time, RingExchangeOptions{.contributors = contributors});
  });
}

std::vector<RankSteps> TrainServers(const Case& c, int servers, const char* mode,
                                    const std::optional<Contributors>& contributors) {
  const RealTime time;
  ParameterServerCluster cluster({.kind = ChannelKind::kInProcess,
                                  .buckets = c.Buckets(),
                                  .servers = servers,
                                  .workers = c.workers,
                                  .mode = ModeOf(mode),
                                  .contributors = contributors,
                                  .optimizer = Momentum(),
                                  .steps = kSteps});
  return TrainRanks(c, std::nullopt, [&](int rank) {
    return std::make_unique<ParameterServerExchange>(rank, cluster.plan(),
                                                     cluster.NewChannels(rank), &time);
  });
}

constexpr char kRingOrder[] = "sync { order: RING }";
constexpr char kRankOrder[] = "sync { order: RANK }";

// One process that computes what each worker does, pass by pass, and adds it up.
class Reference {
 public:
  Reference(const Case& c, Sync::Order order) : case_(c), order_(order) {
    const ParameterLayout layout = MlpLayout(kWidths, c.branches);
    parameters_.resize(layout.count());
    InitializeParameters(layout, kSeed, parameters_);
    for (const Bucket& bucket : buckets_.buckets) {
      optimizers_.emplace_back(Momentum(), bucket.range.count);
    }
  }

  // The digest after each step.
  std::vector<uint64_t> Train() {
    std::vector<uint64_t> digests;
    for (int64_t step = 0; step < kSteps; ++step) {
      MakeStep(step);
      digests.push_back(Digest(parameters_));
    }
    return digests;
  }

  // Of a rank's part of a step in so many passes.
  std::vector<float> GradientOf(int64_t step, int rank, int64_t passes) {
    const auto indices = sampler_.WorkerBatch(step, case_.workers, rank);
    std::vector<float> sum(parameters_.size());
    const auto rows = static_cast<int64_t>(indices.size()) / passes;
    for (int64_t pass = 0; pass < passes; ++pass) {
      const std::vector<float> gradient =
          GradientOfBatch(indices.subspan(pass * rows, rows), step);
      for (size_t i = 0; i < sum.size(); ++i) {
        sum[i] = pass == 0 ? gradient[i] : sum[i] + gradient[i];
      }
    }
    if (passes == 1) return sum;
    for (float& value : sum) value *= 1.0f / static_cast<float>(passes);
    return sum;
  }

  // By step, the branches that batches have gone through.
  const std::vector<std::set<int>>& branches() const { return branches_; }

 private:
  std::vector<float> GradientOfBatch(std::span<const int64_t> indices, int64_t step) {
    const auto rows = static_cast<int64_t>(indices.size());
    auto model = MakeMlp(device_.get(), kWidths, rows, case_.branches);
    EXPECT_OK(model);
    std::vector<float> parameters = parameters_;
    std::vector<float> gradients(parameters.size(), 0.0f);
    auto features = device_->Allocate(rows * kWidths[0]);
    std::vector<int32_t> labels(rows);
    Data().train.FillBatch(indices, features->span().data, labels.data());
    const auto count = static_cast<int64_t>(parameters.size());
    (*model)->Bind({.data = parameters.data(), .count = count},
                   {.data = gradients.data(), .count = count});
    EXPECT_OK((*model)->Forward(
        {.rows = rows, .features = features->span(), .labels = labels}));
    EXPECT_OK((*model)->Backward([](int) {}));
    branches_.resize(step + 1);
    branches_[step].insert(labels[0] % static_cast<int>(case_.branches));
    return gradients;
  }

  void MakeStep(int64_t step) {
    // The third step of an epoch is the one that is not whole.
    const bool partial = case_.joining > 0 && step % 3 == 2;
    const int with_samples = partial ? case_.joining : case_.workers;
    std::vector<std::vector<float>> gradients;
    for (int rank = 0; rank < case_.workers; ++rank) {
      gradients.push_back(rank < with_samples ? GradientOf(step, rank, case_.passes)
                                              : std::vector<float>(parameters_.size()));
    }
    const StepConstants constants = StepConstantsAt(Momentum(), kSteps, step);
    for (const Bucket& bucket : buckets_.buckets) {
      std::vector<float> mean(bucket.range.count);
      for (int chunk = 0; chunk < case_.workers; ++chunk) {
        const Range part = PartitionRange(bucket.range.count, case_.workers, chunk);
        for (int64_t i = part.begin; i < part.end(); ++i) {
          const auto term = [&](int number) {
            const int rank = order_ == Sync::RANK
                                 ? number
                                 : RingFoldRank(chunk, number, case_.workers);
            return gradients[rank][bucket.range.begin + i];
          };
          mean[i] = term(0);
          for (int t = 1; t < case_.workers; ++t) mean[i] += term(t);
          mean[i] *= 1.0f / static_cast<float>(with_samples);
        }
      }
      optimizers_[bucket.index].Apply(
          constants, 0,
          std::span(parameters_).subspan(bucket.range.begin, bucket.range.count), mean);
    }
  }

  const Case case_;
  const Sync::Order order_;
  const BucketPlan buckets_ = case_.Buckets();
  const std::unique_ptr<Device> device_ = MakeCpuDevice();
  Sampler sampler_ = case_.MakeSampler();
  std::vector<float> parameters_;
  std::vector<SliceOptimizer> optimizers_;
  std::vector<std::set<int>> branches_;
};

class StepEquivalenceTest : public testing::TestWithParam<Case> {};

TEST_P(StepEquivalenceTest, RingAndServersEqualOneProcess) {
  const Case& c = GetParam();
  Reference reference(c, Sync::RING);
  const std::vector<uint64_t> expected = reference.Train();
  EXPECT_EQ(TrainRing(c, c.contributors())[0].digests, expected);
  for (int servers = 1; servers <= 3; ++servers) {
    EXPECT_EQ(TrainServers(c, servers, kRingOrder, c.contributors())[0].digests, expected)
        << servers << " servers";
  }
  EXPECT_EQ(TrainServers(c, 2, kRankOrder, c.contributors())[0].digests,
            Reference(c, Sync::RANK).Train());
  if (c.workers == 1) {
    const RealTime time;
    EXPECT_EQ(TrainRanks(c, kSteps,
                         [&](int) {
                           return std::make_unique<LocalExchange>(c.Buckets(), Momentum(),
                                                                  Constants(), &time);
                         })[0]
                  .digests,
              expected);
  }
}

// Or the test above would not see who has samples, passes, or branches.
TEST_P(StepEquivalenceTest, EachSettingShowsInTheBits) {
  const Case& c = GetParam();
  const auto digests = TrainRing(c, c.contributors())[0].digests;
  if (c.joining > 0) {
    EXPECT_NE(TrainRing(c, std::nullopt)[0].digests, digests) << "a mean over all";
    EXPECT_NE(TrainServers(c, 2, kRingOrder, std::nullopt)[0].digests, digests);
  }
  if (c.passes > 1) {
    Case one = c;
    one.passes = 1;
    EXPECT_NE(TrainRing(one, c.contributors())[0].digests, digests);
  }
  if (c.branches == 1) return;
  Reference reference(c, Sync::RING);
  reference.Train();
  bool differ = false;  // Workers in one step.
  bool unused_by_all = false;
  for (const std::set<int>& used : reference.branches()) {
    differ |= used.size() > 1;
    unused_by_all |= static_cast<int64_t>(used.size()) < c.branches;
  }
  EXPECT_TRUE(differ);
  EXPECT_TRUE(unused_by_all || c.passes > 1) << "so many batches use all";
}

TEST_P(StepEquivalenceTest, SamplesAreThoseThatEachRankHas) {
  const Case& c = GetParam();
  const std::vector<RankSteps> ranks = TrainRing(c, c.contributors());
  for (int rank = 0; rank < c.workers; ++rank) {
    int64_t steps = 0;
    for (int64_t step = 0; step < kSteps; ++step) {
      const bool has = rank < c.contributors().At(step);
      steps += has ? 1 : 0;
      EXPECT_EQ(ranks[rank].samples[step], has ? c.rows() : 0);
      EXPECT_EQ(std::isnan(ranks[rank].losses[step]), !has);
    }
    EXPECT_EQ(c.contributors().StepsOf(rank, kSteps), steps);
  }
}

// Both are sums over the samples of the same terms in another order, divided by their
// number. A sum of n floats is off by at most n * epsilon/2 times the sum of magnitudes,
// which here is bounded by the gradient of the loss at the logits (at most 2 a row),
// times the weights on the way down and the activations. Each layer adds the error of its
// own sums, of at most max(width, rows) terms, to what comes from above: 3 layers,
// forward and backward. The sum over passes and their mean add one of `passes` + 1 terms.
TEST_P(StepEquivalenceTest, PassesGiveTheGradientOfTheWholeBatch) {
  const Case& c = GetParam();
  if (c.branches > 1) return;  // Passes choose branches of their own.
  Reference reference(c, Sync::RING);
  const std::vector<float> whole = reference.GradientOf(1, 0, 1);
  const std::vector<float> passes = reference.GradientOf(1, 0, c.passes);
  double magnitude = 0;
  for (const float value : whole) {
    magnitude = std::max(magnitude, std::fabs(static_cast<double>(value)));
  }
  constexpr double kLongestSum = 30;  // Inputs of the first layer; there are 24 rows.
  const double terms = 6 * kLongestSum + static_cast<double>(c.passes) + 1;
  const double tolerance = terms * 0x1p-24 * std::max(magnitude, 1.0);
  for (size_t i = 0; i < whole.size(); ++i) {
    ASSERT_NEAR(whole[i], passes[i], tolerance) << "element " << i;
  }
}

INSTANTIATE_TEST_SUITE_P(
    Cases, StepEquivalenceTest,
    testing::Values(Case{.workers = 1, .passes = 3}, Case{.workers = 2, .passes = 4},
                    Case{.workers = 3, .passes = 2}, Case{.workers = 2, .joining = 1},
                    Case{.workers = 3, .joining = 2}, Case{.workers = 4, .joining = 3},
                    Case{.workers = 3, .branches = 2}, Case{.workers = 4, .branches = 3},
                    Case{.workers = 4, .passes = 3, .branches = 3, .joining = 3}),
    [](const auto& info) {
      return absl::StrCat("N", info.param.workers, "Passes", info.param.passes,
                          "Branches", info.param.branches, "Joining", info.param.joining);
    });

TEST(PlanEpochTest, PlansWhatTheCasesHave) {
  for (const int workers : {2, 3, 4}) {
    const EpochPlan plan = PlanEpoch(kSamples, kGlobalBatch, workers, /*join=*/true);
    EXPECT_EQ(plan.steps, 3);
    EXPECT_EQ(plan.last_contributors, workers - 1);
  }
}

}  // namespace
}  // namespace psring
