// What this program can do with GPUs, and what this machine has of what that takes. With
// a CUDA toolkit cuda_support.cc says it, without one no_cuda.cc: nothing of CUDA is
// here.
#ifndef PSRING_COMMON_CUDA_CUDA_SUPPORT_H_
#define PSRING_COMMON_CUDA_CUDA_SUPPORT_H_

#include <cstdint>
#include <string>
#include <vector>

namespace psring {

// What the program was built with. Versions are as in "13.0".
struct CudaBuild {
  // Why it was built without CUDA, "there is no CUDA toolkit in /usr/local/cuda ...".
  // Empty: it was built with it; else the rest is empty.
  std::string missing = {};
  std::string toolkit = {};
  std::string architectures = {};  // "sm_80, sm_90, PTX of compute_90".
  std::string nccl = {};           // Of its header.
  std::string cublas = {};         // Of its header.
};

struct Gpu {
  std::string name = {};  // "NVIDIA H200".
  // Its compute capability.
  int major = 0;
  int minor = 0;
  int64_t memory_bytes = 0;
};

// A library that is opened while the program runs.
struct FoundLibrary {
  std::string version = {};
  std::string path = {};
  // Why it cannot be used, in one line that names it. Empty: it can; else the rest is
  // empty.
  std::string problem = {};
};

// What was found on this machine.
struct CudaMachine {
  std::string driver = {};  // As CudaDriver().
  std::vector<Gpu> gpus = {};
  // In CUDA's words, why there are none although there is a driver.
  std::string no_gpus = {};
  FoundLibrary nccl = {};
  FoundLibrary cublas = {};
  FoundLibrary cudnn = {};  // Nothing of psring uses it.
};

CudaBuild BuiltWithCuda();

// The newest CUDA that the driver knows, as in "13.0". Empty: there is no driver, or the
// program was built without CUDA. Touches no GPU and takes no time.
std::string CudaDriver();

// Looks for all there is. $PSRING_NCCL_LIB and $PSRING_CUBLAS_LIB name files to take in
// place of those that are found (cuda_libraries.h). Opens libraries of some hundred MB:
// takes up to a second. Threads that the driver starts meanwhile have all signals
// blocked. Without CUDA it finds nothing, and libraries have the problem
// CudaBuild::missing.
CudaMachine FindCuda();

}  // namespace psring

#endif  // PSRING_COMMON_CUDA_CUDA_SUPPORT_H_
