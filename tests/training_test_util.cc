#include "tests/training_test_util.h"

#include <utility>

#include "common/computed_step_constants.h"
#include "common/cpu_device.h"
#include "common/status_macros.h"
#include "common/status_matchers.h"
#include "common/time_source.h"
#include "gtest/gtest.h"
#include "ring/ring_test_util.h"
#include "worker/mlp.h"
#include "worker/pace.h"
#include "worker/sampler.h"
#include "worker/trainer.h"

namespace psring {
namespace {

SampleSet Samples(int64_t count) {
  const int64_t features = TrainedWidths()[0];
  std::vector<uint8_t> pixels, labels;
  uint32_t state = 5;
  for (int64_t i = 0; i < count * features; ++i) {
    state = state * 1664525u + 1013904223u;
    pixels.push_back(static_cast<uint8_t>(state >> 24));
  }
  for (int64_t i = 0; i < count; ++i) labels.push_back(static_cast<uint8_t>(i % 5));
  return SampleSet(features, std::move(pixels), std::move(labels));
}

absl::Status TrainRank(int rank, const TrainingOptions& options,
                       GradientExchange* exchange, std::vector<uint64_t>* digests) {
  const RealTime time;
  const std::unique_ptr<Device> device = MakeCpuDevice();
  const int64_t rows = kGlobalBatch / options.workers;
  ASSIGN_OR_RETURN(const std::unique_ptr<Model> model,
                   MakeMlp(device.get(), TrainedWidths(), rows));
  const int64_t count = model->layout().count();
  ASSIGN_OR_RETURN(const DeviceBuffer parameters, device->Allocate(count));
  DeviceBuffer gradients;
  if (options.gradients.empty()) {
    ASSIGN_OR_RETURN(gradients, device->Allocate(count));
  } else {
    gradients = options.gradients[rank];
  }
  if (rank == 0) InitializeParameters(model->layout(), kSeed, parameters.span().host());
  model->Bind(parameters.span(), gradients.span());
  RETURN_IF_ERROR(exchange->Bind(parameters.span(), gradients.span()));
  Sampler sampler(TrainedData().shape.train_count, kGlobalBatch, kSeed);
  Pace pace({}, &time, [](absl::Duration) { return absl::OkStatus(); });
  Trainer trainer(
      {.rank = rank,
       .workers = options.workers,
       .rows = rows,
       .steps = options.steps,
       .overlap = options.overlap,
       .digest_interval = 1},
      {.device = device.get(),
       .model = model.get(),
       .exchange = exchange,
       .buckets = &options.buckets,
       .data = &TrainedData(),
       .sampler = &sampler,
       .time = &time,
       .pace = &pace,
       .parameters = parameters.span(),
       .gradients = gradients.span()},
      [digests](const StepRecord& step) { digests->push_back(step.parameter_digest()); });
  return trainer.Run();
}

}  // namespace

const std::vector<int64_t>& TrainedWidths() {
  static const std::vector<int64_t>& widths = *new std::vector<int64_t>{30, 17, 9, 5};
  return widths;
}

const DataSet& TrainedData() {
  static const DataSet& data = *new DataSet{.shape = {.train_count = 100,
                                                      .test_count = 1,
                                                      .features = TrainedWidths()[0],
                                                      .classes = 5},
                                            .train = Samples(100),
                                            .test = Samples(1)};
  return data;
}

BucketPlan TrainedBuckets() { return PlanBuckets(MlpLayout(TrainedWidths()), 700, 200); }

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

std::vector<std::vector<uint64_t>> TrainRanks(const TrainingOptions& options,
                                              const MakeExchange& make) {
  std::vector<std::vector<uint64_t>> digests(options.workers);
  // Nobody goes while others still need it.
  std::vector<std::unique_ptr<GradientExchange>> exchanges(options.workers);
  const auto statuses = RunRanks(options.workers, [&](int rank) {
    exchanges[rank] = make(rank);
    return TrainRank(rank, options, exchanges[rank].get(), &digests[rank]);
  });
  for (const absl::Status& status : statuses) EXPECT_OK(status);
  return digests;
}

std::vector<uint64_t> Train(const TrainingOptions& options, const MakeExchange& make) {
  const auto digests = TrainRanks(options, make);
  for (int rank = 1; rank < options.workers; ++rank) {
    EXPECT_EQ(digests[rank], digests[0]) << "rank " << rank;
  }
  EXPECT_EQ(digests[0].size(), kSteps);
  return digests[0];
}

}  // namespace psring
