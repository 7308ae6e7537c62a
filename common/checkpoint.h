// A checkpoint: what it takes to continue a job, by whoever comes to own which part.
#ifndef PSRING_COMMON_CHECKPOINT_H_
#define PSRING_COMMON_CHECKPOINT_H_

#include <cstdint>
#include <memory>
#include <span>
#include <string>
#include <vector>

#include "absl/functional/function_ref.h"
#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "common/block_file.h"
#include "common/partition.h"
#include "proto/checkpoint.pb.h"

namespace psring {

// Folders and files of one arm; each file is a block file.
//
//   step-120/server-0    a part: slices of parameters and of optimizer state
//   step-120/server-1
//   step-120/manifest    written last: the parts, their lengths and checksums
//
// A checkpoint is there once its manifest is. Slices are ranges of elements, so that
// parts written by one number of servers, or by ranks of a ring, are read by any other.
std::string CheckpointFolder(const std::string& arm_folder, int64_t step);

// Of one range, where its owner has it.
struct CheckpointedSlice {
  Range range;
  int64_t version = 0;  // Updates that it has seen.
  std::span<const float> parameters;
  // As many as the optimizer keeps floats for a parameter; each as long as `parameters`.
  std::vector<std::span<const float>> state;
};

// Writes what `writer` ("server 0") owns into the folder, which is made where it is
// missing. Errors as WriteBlockFile's.
absl::StatusOr<CheckpointPart> WriteCheckpointPart(
    const std::string& folder, const std::string& writer, int64_t step,
    const std::vector<CheckpointedSlice>& slices,
    absl::FunctionRef<void(int64_t bytes)> wrote);

// Makes the checkpoint be there, once all its parts are.
absl::Status WriteCheckpointManifest(const std::string& folder,
                                     const CheckpointManifest& manifest);

// Steps of the checkpoints that are there, in order.
std::vector<int64_t> CheckpointSteps(const std::string& arm_folder);

// Removes all but the newest `keep` > 0 checkpoints, and what others have left unfinished
// before the newest. Internal: the system refused.
absl::Status RemoveOldCheckpoints(const std::string& arm_folder, int64_t keep);

// One that is there. Reading from several threads at a time is fine.
//
// Errors as BlockFile's; DataLoss too where files do not fit together, with the name of
// one.
class Checkpoint {
 public:
  // Checks the manifest, that every part is the one that it names, and that together they
  // have every element once.
  static absl::StatusOr<Checkpoint> Open(const std::string& folder);

  const CheckpointManifest& manifest() const { return manifest_; }
  int state_arrays() const { return state_arrays_; }
  // Of the slice that has seen the fewest updates.
  int64_t lowest_version() const { return lowest_version_; }

  // Checks every byte.
  absl::Status Verify() const;

  // Reads parameters, or the state array of that number, of elements of the flat buffer
  // from `begin` on, which it has.
  absl::Status ReadParameters(int64_t begin, std::span<float> to) const;
  absl::Status ReadState(int array, int64_t begin, std::span<float> to) const;

 private:
  struct Slice {
    Range range;
    int part = 0;
    int first_array = 0;  // In the part: of its parameters.
  };

  absl::Status AddPart(const std::string& folder, const CheckpointPart& part);
  // The slices in the order of their elements, without a gap; or what is missing.
  absl::Status SortSlices(const std::string& folder);
  absl::Status Read(int array, int64_t begin, std::span<float> to) const;

  CheckpointManifest manifest_;
  int state_arrays_ = 0;
  int64_t lowest_version_ = 0;
  std::vector<BlockFile> parts_;
  std::vector<Slice> slices_;
};

}  // namespace psring

#endif  // PSRING_COMMON_CHECKPOINT_H_
