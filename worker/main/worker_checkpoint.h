// A worker's part of checkpoints, where workers own the parameters.
#ifndef PSRING_WORKER_MAIN_WORKER_CHECKPOINT_H_
#define PSRING_WORKER_MAIN_WORKER_CHECKPOINT_H_

#include <cstdint>
#include <span>
#include <vector>

#include "absl/functional/function_ref.h"
#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "common/checkpoint.h"
#include "common/state_slice.h"
#include "proto/coordinator.pb.h"

namespace psring {

// Reads the state of these elements. DataLoss: the checkpoint is damaged;
// FailedPrecondition: it is of another optimizer.
absl::Status ReadState(const Checkpoint& checkpoint,
                       const std::vector<StateSlice>& state);

// Writes these elements: their state, and their parameters out of all. They have seen
// `updates` updates. Errors as WriteCheckpointPart's.
absl::StatusOr<CheckpointPart> WriteWorkerPart(
    const CheckpointOrder& order, int rank, int64_t updates,
    std::span<const float> parameters, const std::vector<StateSlice>& state,
    absl::FunctionRef<void(int64_t bytes)> wrote);

}  // namespace psring

#endif  // PSRING_WORKER_MAIN_WORKER_CHECKPOINT_H_
