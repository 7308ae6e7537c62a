// Which checkpoint a run continues from, and whether it may.
#ifndef PSRING_EXPERIMENTS_RESTORE_H_
#define PSRING_EXPERIMENTS_RESTORE_H_

#include <string>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "proto/checkpoint.pb.h"
#include "proto/coordinator.pb.h"

namespace psring {

// Lets the job of a run continue from a checkpoint: fills in its `restored`.
//
// `from` is a checkpoint's folder (.../step-120); a folder of them (.../checkpoints/ARM);
// or a run's folder, and then those of the run of this name are meant ("ARM", or
// "ARM/seed-3"). Of several it is the newest, every byte of which is checked. One that is
// damaged is an error that names the file, and the newest whole one before it; with
// `previous` that one is taken, and `warning` says so.
//
// Number of servers, mode, buckets, number of steps and the like may be others than those
// it was written with. Errors: NotFound, there is none; DataLoss (exit code 1), it is
// damaged; InvalidArgument, it is of another model, other data, another optimizer..., or
// leaves nothing to do.
absl::Status Restore(const std::string& from, const std::string& name, bool previous,
                     JobSpec* spec, std::string* warning);

// The last part of it, pure: what the job of `spec` continues with, but for the folder.
absl::StatusOr<Restored> Continue(const CheckpointManifest& manifest,
                                  int64_t lowest_version, const JobSpec& spec);

}  // namespace psring

#endif  // PSRING_EXPERIMENTS_RESTORE_H_
