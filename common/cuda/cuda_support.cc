#include "common/cuda/cuda_support.h"

#include <signal.h>

#include <algorithm>
#include <cstddef>

#include "absl/strings/str_cat.h"
#include "common/cuda/cuda_libraries.h"
#include "common/cuda/cuda_toolkit.h"
#include "common/cuda/dynamic_library.h"

namespace psring {
namespace {

// While it lives, threads that others start in this one have all signals blocked.
class SignalsBlocked {
 public:
  SignalsBlocked() {
    sigset_t all;
    sigfillset(&all);
    pthread_sigmask(SIG_SETMASK, &all, &before_);
  }
  ~SignalsBlocked() { pthread_sigmask(SIG_SETMASK, &before_, nullptr); }
  SignalsBlocked(const SignalsBlocked&) = delete;
  SignalsBlocked& operator=(const SignalsBlocked&) = delete;

 private:
  sigset_t before_;
};

// "13.0" of CUDA's one number, 13000.
std::string CudaVersionText(int version) {
  return absl::StrCat(version / 1000, ".", version % 1000 / 10);
}

void FindGpus(CudaMachine* machine) {
  int count = 0;  // A call that fails leaves it as it is.
  cudaError_t error = cudaGetDeviceCount(&count);
  for (int i = 0; i < count && error == cudaSuccess; ++i) {
    cudaDeviceProp properties = {};
    error = cudaGetDeviceProperties(&properties, i);
    machine->gpus.push_back(
        {.name = properties.name,
         .major = properties.major,
         .minor = properties.minor,
         .memory_bytes = static_cast<int64_t>(properties.totalGlobalMem)});
  }
  if (error == cudaSuccess) return;
  machine->gpus.clear();
  machine->no_gpus = cudaGetErrorString(error);
}

template <typename Functions>
FoundLibrary Describe(const absl::StatusOr<Functions>& loaded) {
  if (!loaded.ok()) return {.problem = std::string(loaded.status().message())};
  return {.version = loaded->version, .path = loaded->path};
}

FoundLibrary FindCudnn(const std::string& folder) {
  FoundLibrary found;
  const std::string name = "libcudnn.so.9";
  const absl::StatusOr<DynamicLibrary> library = DynamicLibrary::Open(
      "cuDNN", {{.file = name}, {.file = absl::StrCat(folder, "/", name)}},
      [&found](const DynamicLibrary& opened) {
        size_t (*get_version)() = nullptr;
        const absl::Status bound = opened.Bind("cudnnGetVersion", &get_version);
        if (!bound.ok()) return bound;
        const size_t version = get_version();
        found.version =
            absl::StrCat(version / 10000, ".", version / 100 % 100, ".", version % 100);
        found.path = opened.path();
        return absl::OkStatus();
      });
  if (!library.ok()) found.problem = std::string(library.status().message());
  return found;
}

}  // namespace

CudaBuild BuiltWithCuda() {
  return {.toolkit = kCudaVersion,
          .architectures = kCudaArchitectures,
          .nccl = absl::StrCat(NCCL_MAJOR, ".", NCCL_MINOR, ".", NCCL_PATCH),
          .cublas = absl::StrCat(CUBLAS_VER_MAJOR, ".", CUBLAS_VER_MINOR, ".",
                                 CUBLAS_VER_PATCH)};
}

std::string CudaDriver() {
  int version = 0;
  if (cudaDriverGetVersion(&version) != cudaSuccess || version == 0) return "";
  return CudaVersionText(version);
}

CudaMachine FindCuda() {
  const SignalsBlocked blocked;
  const CudaLibraryPlaces places = CudaLibraryPlaces::FromEnvironment();
  CudaMachine machine;
  machine.driver = CudaDriver();
  if (!machine.driver.empty()) FindGpus(&machine);
  machine.nccl = Describe(LoadNccl(places));
  machine.cublas = Describe(LoadCublas(places));
  machine.cudnn = FindCudnn(places.folder);
  return machine;
}

}  // namespace psring
