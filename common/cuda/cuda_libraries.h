// cuBLAS and NCCL as tables of functions. They are opened while the program runs, because
// linking them costs every program a third of a second at its start, and where they are
// not installed it does not start at all. Only where there is a CUDA toolkit
// (third_party/cuda_library.bzl).
#ifndef PSRING_COMMON_CUDA_CUDA_LIBRARIES_H_
#define PSRING_COMMON_CUDA_CUDA_LIBRARIES_H_

#include <string>

#include "absl/status/statusor.h"
#include "cublas_v2.h"
#include "cuda_runtime_api.h"
#include "nccl.h"

namespace psring {

// Where libraries are looked for. One whose file is named is nowhere else; the others are
// where the system's linker finds them, else in `folder`.
struct CudaLibraryPlaces {
  std::string nccl = {};    // A file; empty: not named.
  std::string cublas = {};  // The same.
  std::string folder = {};  // Empty: none.

  // $PSRING_NCCL_LIB, $PSRING_CUBLAS_LIB, and the folder of the toolkit that the program
  // was built with.
  static CudaLibraryPlaces FromEnvironment();
};

// The functions of NCCL that data-parallel training takes, under its names without
// "nccl".
struct NcclFunctions {
  std::string path;     // Of the file that they are from.
  std::string version;  // "2.28.9".

  decltype(&ncclGetVersion) get_version = nullptr;
  decltype(&ncclGetUniqueId) get_unique_id = nullptr;
  decltype(&ncclCommInitRankConfig) comm_init_rank_config = nullptr;
  decltype(&ncclCommGetAsyncError) comm_get_async_error = nullptr;
  decltype(&ncclCommAbort) comm_abort = nullptr;
  decltype(&ncclCommFinalize) comm_finalize = nullptr;
  decltype(&ncclCommDestroy) comm_destroy = nullptr;
  decltype(&ncclAllReduce) all_reduce = nullptr;
  decltype(&ncclBroadcast) broadcast = nullptr;
  decltype(&ncclGroupStart) group_start = nullptr;
  decltype(&ncclGroupEnd) group_end = nullptr;
  decltype(&ncclGetErrorString) get_error_string = nullptr;
  decltype(&ncclGetLastError) get_last_error = nullptr;
};

// Those of cuBLAS that an MLP takes, without "cublas" and "_v2".
struct CublasFunctions {
  std::string path;
  std::string version;  // "13.1.0".

  decltype(&cublasGetProperty) get_property = nullptr;
  decltype(&cublasCreate_v2) create = nullptr;
  decltype(&cublasDestroy_v2) destroy = nullptr;
  decltype(&cublasGetVersion_v2) get_version = nullptr;
  decltype(&cublasSetStream_v2) set_stream = nullptr;
  decltype(&cublasSetMathMode) set_math_mode = nullptr;
  decltype(&cublasSgemm_v2) sgemm = nullptr;
  decltype(&cublasGetStatusString) get_status_string = nullptr;
};

// Every function of a table is there, and the library is of the header's major version;
// NCCL, which has no such promise within one, is not older than the header. Needs no
// driver and touches no GPU. From any thread. FailedPrecondition: one line with every
// place that was tried, and what was wrong with it.
absl::StatusOr<NcclFunctions> LoadNccl(const CudaLibraryPlaces& places);
absl::StatusOr<CublasFunctions> LoadCublas(const CudaLibraryPlaces& places);

}  // namespace psring

#endif  // PSRING_COMMON_CUDA_CUDA_LIBRARIES_H_
