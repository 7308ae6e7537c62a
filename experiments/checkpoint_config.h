// Settings of checkpoints (Experiment.checkpoint): their rules and defaults. Pure.
#ifndef PSRING_EXPERIMENTS_CHECKPOINT_CONFIG_H_
#define PSRING_EXPERIMENTS_CHECKPOINT_CONFIG_H_

#include "absl/status/status.h"
#include "experiments/config_text.h"
#include "proto/experiment.pb.h"

namespace psring {

// Of an experiment whose arms have modes.
absl::Status CheckCheckpoint(const Experiment& experiment, const FieldOrigins& origins);

void FillCheckpointDefaults(CheckpointSettings* checkpoint);

}  // namespace psring

#endif  // PSRING_EXPERIMENTS_CHECKPOINT_CONFIG_H_
