#include "experiments/device_check.h"

#include <algorithm>

#include "absl/strings/str_cat.h"
#include "common/cuda/cuda_needs.h"
#include "common/errors.h"
#include "common/status_macros.h"

namespace psring {
namespace {

// Arms run one after the other.
CudaNeeds NeedsOf(const std::vector<JobSpec>& specs) {
  CudaNeeds needs;
  for (const JobSpec& spec : specs) {
    needs.gpus = std::max<int>(needs.gpus, spec.workers());
    needs.nccl = needs.nccl || (spec.arm().has_ring() && spec.workers() > 1);
  }
  return needs;
}

absl::Status Refusal(const absl::Status& why) {
  if (why.ok()) return why;
  return WithExitCode(
      absl::Status(why.code(), absl::StrCat("device: is CUDA, and ", why.message(),
                                            "; allowed: CPU")),
      ExitCodeOf(why));
}

}  // namespace

absl::Status CheckDevice(const std::vector<JobSpec>& specs, bool external) {
  return CheckDevice(specs, external, BuiltWithCuda(), FindCuda);
}

absl::Status CheckDevice(const std::vector<JobSpec>& specs, bool external,
                         const CudaBuild& build, absl::FunctionRef<CudaMachine()> find) {
  const bool wanted = std::any_of(specs.begin(), specs.end(), [](const JobSpec& spec) {
    return spec.experiment().device() == Experiment::CUDA;
  });
  if (!wanted) return absl::OkStatus();
  RETURN_IF_ERROR(Refusal(CheckCudaBuild(build)));
  if (!external) {
    RETURN_IF_ERROR(Refusal(CheckCudaMachine(build, find(), NeedsOf(specs))));
  }
  if (kTrainsOnGpus) return absl::OkStatus();
  return Refusal(absl::InvalidArgumentError("training on GPUs is not in this build"));
}

}  // namespace psring
