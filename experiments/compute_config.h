// How workers compute, and models that are a list of tensors: what the settings must
// satisfy, defaults, and words for people.
#ifndef PSRING_EXPERIMENTS_COMPUTE_CONFIG_H_
#define PSRING_EXPERIMENTS_COMPUTE_CONFIG_H_

#include <cstdint>
#include <string>

#include "absl/status/status.h"
#include "common/layout.h"
#include "experiments/config_text.h"
#include "proto/coordinator.pb.h"
#include "proto/experiment.pb.h"

namespace psring {

// OK, or the first thing that is wrong with `compute`, before defaults, or with how it,
// the model, the data and the training go together; `origins` tells where that stands.
// `ranks` is the number of workers that all arms but local ones have. Liveness and
// injected faults have been checked.
absl::Status CheckCompute(const Experiment& experiment, int64_t ranks,
                          const FieldOrigins& origins);

// The same for `model.tensors` alone.
absl::Status CheckTensorList(const TensorList& tensors, const FieldOrigins& origins);

// Models that are tensors to exchange, and nothing that computes with them: `tensors` and
// `inventory`.
bool HasShapesAlone(const ModelSettings& model);

// 4 GiB of parameters: what a worker may be asked to allocate.
inline constexpr int64_t kMostElements = 1 << 30;

// InvalidArgument: the job's model is an inventory with more elements than that, which
// can be planned but not trained.
absl::Status CheckSizeToRun(const JobSpec& spec);

// The defaults that proto/experiment.proto states.
void FillComputeDefaults(Experiment* experiment);

// "real"; "padded to 20 ms"; "emulated, 10 ms forward and 20 ms backward, jitter 5 %,
// worker 1 times 1.5". Of checked settings.
std::string DescribeCompute(const Compute& compute);

// Of a checked list: tensors of one dimension.
ParameterLayout TensorListLayout(const TensorList& tensors);

}  // namespace psring

#endif  // PSRING_EXPERIMENTS_COMPUTE_CONFIG_H_
