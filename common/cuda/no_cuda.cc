// cuda_support.h in a program that is built without CUDA.
#include "common/cuda/cuda_support.h"
#include "common/cuda/cuda_toolkit.h"

namespace psring {

CudaBuild BuiltWithCuda() { return {.missing = kCudaMissing}; }

std::string CudaDriver() { return ""; }

CudaMachine FindCuda() {
  const FoundLibrary none = {.problem = kCudaMissing};
  return {.nccl = none, .cublas = none, .cudnn = none};
}

}  // namespace psring
