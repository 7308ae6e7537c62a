// A small training by ranks that are threads, through any exchange: a worker process
// without the process.
#ifndef PSRING_TESTS_TRAINING_TEST_UTIL_H_
#define PSRING_TESTS_TRAINING_TEST_UTIL_H_

#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <vector>

#include "common/device.h"
#include "common/gradient_exchange.h"
#include "common/layout.h"
#include "common/step_constants.h"
#include "proto/experiment.pb.h"
#include "worker/data_set.h"

namespace psring {

inline constexpr int64_t kSteps = 6;
inline constexpr int64_t kGlobalBatch = 24;  // Divisible by 1, 2, 3, 4 and 6.
inline constexpr uint64_t kSeed = 11;

// Of the model's layers, the data's features first.
const std::vector<int64_t>& TrainedWidths();
const DataSet& TrainedData();
// Several buckets, none of them of a size that N or S divides.
BucketPlan TrainedBuckets();
Optimizer Momentum();
// Of a run of kSteps.
std::shared_ptr<StepConstantsSource> ConstantsOf(const Optimizer& optimizer);

struct TrainingOptions {
  int workers = 1;
  // Without it the exchange ends it.
  std::optional<int64_t> steps = std::nullopt;
  BucketPlan buckets = TrainedBuckets();
  bool overlap = true;
  // By rank, where they are to lie somewhere special.
  std::vector<DeviceBuffer> gradients = {};
};

// Called on the rank's thread.
using MakeExchange = std::function<std::unique_ptr<GradientExchange>(int rank)>;

// By rank, the digests after every step.
std::vector<std::vector<uint64_t>> TrainRanks(const TrainingOptions& options,
                                              const MakeExchange& make);
// The digests after every step, equal on all ranks, of which there are kSteps.
std::vector<uint64_t> Train(const TrainingOptions& options, const MakeExchange& make);

}  // namespace psring

#endif  // PSRING_TESTS_TRAINING_TEST_UTIL_H_
