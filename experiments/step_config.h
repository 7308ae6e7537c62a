// What a step of an arm is made of: passes over micro-batches, the samples of an epoch
// that make no whole batch, parameters and branches that are not used, and the mean over
// workers. What the settings must satisfy, defaults, and words for people.
#ifndef PSRING_EXPERIMENTS_STEP_CONFIG_H_
#define PSRING_EXPERIMENTS_STEP_CONFIG_H_

#include <cstdint>
#include <string>

#include "absl/status/status.h"
#include "experiments/config_text.h"
#include "proto/coordinator.pb.h"
#include "proto/experiment.pb.h"

namespace psring {

// OK, or the first thing that is wrong with training.micro_batches, .uneven,
// .unused_parameters or model.mlp.branches as written, before defaults; `origins` tells
// where that stands.
absl::Status CheckSteps(const Experiment& experiment, const FieldOrigins& origins);

// The same for one arm and its number of workers, which divides the global batch.
absl::Status CheckStepsOfArm(const Experiment& experiment, const Arm& arm,
                             int64_t workers, const FieldOrigins& origins);

// The defaults that proto/experiment.proto states.
void FillStepDefaults(Experiment* experiment);

// "mean over 4 workers of 15 samples each in 3 passes, global batch 60, effective
// learning rate 0.1".
std::string DescribeReduction(const JobSpec& spec);

// "join, the last step of an epoch has 3 of 4 workers, 12 samples left out"; "drop, 12
// samples of each epoch left out". Empty where epochs are whole batches, and without
// samples: train_count is 0, or compute is emulated.
std::string DescribeUneven(const JobSpec& spec, int64_t train_count);

}  // namespace psring

#endif  // PSRING_EXPERIMENTS_STEP_CONFIG_H_
