#include "common/cuda/cuda_needs.h"

#include <string>

#include "absl/strings/str_cat.h"
#include "common/errors.h"

namespace psring {
namespace {

// Machine code for it is the oldest in the program (third_party/cuda_library.bzl).
constexpr int kOldestComputeCapability = 8;

absl::Status Missing(const std::string& what) {
  return WithExitCode(absl::FailedPreconditionError(what), ExitCode::kSkipped);
}

}  // namespace

absl::Status CheckCudaBuild(const CudaBuild& build) {
  if (build.missing.empty()) return absl::OkStatus();
  return absl::InvalidArgumentError(
      absl::StrCat("this program was built without CUDA: ", build.missing));
}

absl::Status CheckCudaMachine(const CudaBuild& build, const CudaMachine& machine,
                              const CudaNeeds& needs) {
  if (machine.driver.empty()) return Missing("this machine has no NVIDIA driver");
  if (machine.gpus.empty()) {
    return Missing(
        absl::StrCat("this machine has no GPU that can be used",
                     machine.no_gpus.empty() ? "" : absl::StrCat(": ", machine.no_gpus)));
  }
  const int gpus = static_cast<int>(machine.gpus.size());
  if (gpus < needs.gpus) {
    return Missing(absl::StrCat("this machine has ", gpus, gpus == 1 ? " GPU" : " GPUs",
                                ", and ", needs.gpus, " workers are to have one each"));
  }
  for (int i = 0; i < needs.gpus; ++i) {
    const Gpu& gpu = machine.gpus[i];
    if (gpu.major >= kOldestComputeCapability) continue;
    return Missing(absl::StrCat("GPU ", i, " of this machine (", gpu.name,
                                ") has compute capability ", gpu.major, ".", gpu.minor,
                                ", and kernels are built for ", build.architectures));
  }
  if (!machine.cublas.problem.empty()) return Missing(machine.cublas.problem);
  if (needs.nccl && !machine.nccl.problem.empty()) return Missing(machine.nccl.problem);
  return absl::OkStatus();
}

}  // namespace psring
