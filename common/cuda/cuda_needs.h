// Whether what a job wants of GPUs is there.
#ifndef PSRING_COMMON_CUDA_CUDA_NEEDS_H_
#define PSRING_COMMON_CUDA_CUDA_NEEDS_H_

#include "absl/status/status.h"
#include "common/cuda/cuda_support.h"

namespace psring {

// What the workers of this machine take. They all take cuBLAS.
struct CudaNeeds {
  int gpus = 1;
  bool nccl = false;
};

// OK, or one line that says why not. InvalidArgument (exit code 2): the program was built
// without CUDA.
absl::Status CheckCudaBuild(const CudaBuild& build);

// The same for this machine, of a program that was built with it. FailedPrecondition
// (exit code 77): there is no driver, or not as many GPUs that the kernels run on, or not
// the libraries.
absl::Status CheckCudaMachine(const CudaBuild& build, const CudaMachine& machine,
                              const CudaNeeds& needs);

}  // namespace psring

#endif  // PSRING_COMMON_CUDA_CUDA_NEEDS_H_
