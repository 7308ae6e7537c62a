// Whether what an experiment computes on is there, before anything is started.
#ifndef PSRING_EXPERIMENTS_DEVICE_CHECK_H_
#define PSRING_EXPERIMENTS_DEVICE_CHECK_H_

#include <vector>

#include "absl/functional/function_ref.h"
#include "absl/status/status.h"
#include "common/cuda/cuda_support.h"
#include "proto/coordinator.pb.h"

namespace psring {

// Whether workers of this build compute on GPUs.
inline constexpr bool kTrainsOnGpus = false;

// OK, or one line that names `device`. InvalidArgument (exit code 2): this build has no
// such device. FailedPrecondition (exit code 77): this machine lacks a driver, GPUs or
// libraries for the workers of one of the jobs. `external`: processes are on any hosts,
// so that this machine is not looked at.
absl::Status CheckDevice(const std::vector<JobSpec>& specs, bool external);

// The same of any build and machine; `find` is called where it matters what there is.
absl::Status CheckDevice(const std::vector<JobSpec>& specs, bool external,
                         const CudaBuild& build, absl::FunctionRef<CudaMachine()> find);

}  // namespace psring

#endif  // PSRING_EXPERIMENTS_DEVICE_CHECK_H_
