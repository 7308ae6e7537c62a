#include "worker/main/worker_checkpoint.h"

#include "absl/strings/str_cat.h"
#include "common/status_macros.h"

namespace psring {

absl::Status ReadState(const Checkpoint& checkpoint,
                       const std::vector<StateSlice>& state) {
  for (const StateSlice& slice : state) {
    const auto arrays = static_cast<int>(slice.state.size());
    if (arrays != checkpoint.state_arrays()) {
      return absl::FailedPreconditionError(absl::StrCat(
          "the checkpoint has ", checkpoint.state_arrays(),
          " floats of optimizer state for a parameter, this job's optimizer ", arrays));
    }
    for (int array = 0; array < arrays; ++array) {
      RETURN_IF_ERROR(checkpoint.ReadState(array, slice.range.begin, slice.state[array]));
    }
  }
  return absl::OkStatus();
}

absl::StatusOr<CheckpointPart> WriteWorkerPart(
    const CheckpointOrder& order, int rank, int64_t updates,
    std::span<const float> parameters, const std::vector<StateSlice>& state,
    absl::FunctionRef<void(int64_t bytes)> wrote) {
  std::vector<CheckpointedSlice> slices;
  for (const StateSlice& own : state) {
    CheckpointedSlice& slice = slices.emplace_back();
    slice.range = own.range;
    slice.version = updates;
    slice.parameters = parameters.subspan(own.range.begin, own.range.count);
    slice.state.assign(own.state.begin(), own.state.end());
  }
  return WriteCheckpointPart(order.folder(), absl::StrCat("worker ", rank), order.step(),
                             slices, wrote);
}

}  // namespace psring
