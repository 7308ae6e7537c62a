#include "common/cuda/cuda_libraries.h"

#include <cstdlib>
#include <type_traits>
#include <vector>

#include "absl/strings/str_cat.h"
#include "common/cuda/cuda_toolkit.h"
#include "common/cuda/dynamic_library.h"
#include "common/status_macros.h"

// Into `table`, from `library`: the function of a table's member, whose type says which.
#define PSRING_BIND(member, function)                                          \
  static_assert(std::is_same_v<decltype(table->member), decltype(&function)>); \
  RETURN_IF_ERROR(library.Bind(#function, &table->member))

namespace psring {
namespace {

// The names that libraries of the headers' major versions have.
const char kNcclName[] = "libnccl.so.2";
static_assert(NCCL_MAJOR == 2);

std::string CublasName() { return absl::StrCat("libcublas.so.", CUBLAS_VER_MAJOR); }

std::string Variable(const char* name) {
  const char* const value = std::getenv(name);
  return value == nullptr ? "" : value;
}

std::vector<LibraryPlace> PlacesOf(const std::string& named, const char* variable,
                                   const std::string& library,
                                   const std::string& folder) {
  if (!named.empty()) return {{.file = named, .what = variable}};
  std::vector<LibraryPlace> places = {{.file = library}};
  if (!folder.empty()) places.push_back({.file = absl::StrCat(folder, "/", library)});
  return places;
}

absl::Status WrongVersion(const std::string& is, const std::string& takes) {
  return absl::FailedPreconditionError(
      absl::StrCat("is version ", is, ", and this program takes ", takes));
}

// Of NCCL's one number.
std::string VersionText(int version) {
  return absl::StrCat(version / 10000, ".", version / 100 % 100, ".", version % 100);
}

absl::Status BindNccl(const DynamicLibrary& library, NcclFunctions* table) {
  PSRING_BIND(get_version, ncclGetVersion);
  int version = 0;
  if (table->get_version(&version) != ncclSuccess) {
    return absl::FailedPreconditionError("does not say its version");
  }
  if (version / 10000 != NCCL_MAJOR || version < NCCL_VERSION_CODE) {
    return WrongVersion(
        VersionText(version),
        absl::StrCat(VersionText(NCCL_VERSION_CODE), " or a later ", NCCL_MAJOR, ".x"));
  }
  table->version = VersionText(version);
  table->path = library.path();
  PSRING_BIND(get_unique_id, ncclGetUniqueId);
  PSRING_BIND(comm_init_rank_config, ncclCommInitRankConfig);
  PSRING_BIND(comm_get_async_error, ncclCommGetAsyncError);
  PSRING_BIND(comm_abort, ncclCommAbort);
  PSRING_BIND(comm_finalize, ncclCommFinalize);
  PSRING_BIND(comm_destroy, ncclCommDestroy);
  PSRING_BIND(all_reduce, ncclAllReduce);
  PSRING_BIND(broadcast, ncclBroadcast);
  PSRING_BIND(group_start, ncclGroupStart);
  PSRING_BIND(group_end, ncclGroupEnd);
  PSRING_BIND(get_error_string, ncclGetErrorString);
  PSRING_BIND(get_last_error, ncclGetLastError);
  return absl::OkStatus();
}

absl::Status BindCublas(const DynamicLibrary& library, CublasFunctions* table) {
  // Not by cublasGetVersion, which takes a handle and so a GPU.
  PSRING_BIND(get_property, cublasGetProperty);
  int major = 0, minor = 0, patch = 0;
  if (table->get_property(MAJOR_VERSION, &major) != CUBLAS_STATUS_SUCCESS ||
      table->get_property(MINOR_VERSION, &minor) != CUBLAS_STATUS_SUCCESS ||
      table->get_property(PATCH_LEVEL, &patch) != CUBLAS_STATUS_SUCCESS) {
    return absl::FailedPreconditionError("does not say its version");
  }
  table->version = absl::StrCat(major, ".", minor, ".", patch);
  if (major != CUBLAS_VER_MAJOR) {
    return WrongVersion(table->version, absl::StrCat(CUBLAS_VER_MAJOR, ".x"));
  }
  table->path = library.path();
  PSRING_BIND(create, cublasCreate_v2);
  PSRING_BIND(destroy, cublasDestroy_v2);
  PSRING_BIND(get_version, cublasGetVersion_v2);
  PSRING_BIND(set_stream, cublasSetStream_v2);
  PSRING_BIND(set_math_mode, cublasSetMathMode);
  PSRING_BIND(sgemm, cublasSgemm_v2);
  PSRING_BIND(get_status_string, cublasGetStatusString);
  return absl::OkStatus();
}

}  // namespace

CudaLibraryPlaces CudaLibraryPlaces::FromEnvironment() {
  return {.nccl = Variable("PSRING_NCCL_LIB"),
          .cublas = Variable("PSRING_CUBLAS_LIB"),
          .folder = kCudaLibraries};
}

absl::StatusOr<NcclFunctions> LoadNccl(const CudaLibraryPlaces& places) {
  NcclFunctions table;
  RETURN_IF_ERROR(
      DynamicLibrary::Open(
          "NCCL", PlacesOf(places.nccl, "$PSRING_NCCL_LIB", kNcclName, places.folder),
          [&table](const DynamicLibrary& library) { return BindNccl(library, &table); })
          .status());
  return table;
}

absl::StatusOr<CublasFunctions> LoadCublas(const CudaLibraryPlaces& places) {
  CublasFunctions table;
  RETURN_IF_ERROR(
      DynamicLibrary::Open(
          "cuBLAS",
          PlacesOf(places.cublas, "$PSRING_CUBLAS_LIB", CublasName(), places.folder),
          [&table](const DynamicLibrary& library) { return BindCublas(library, &table); })
          .status());
  return table;
}

}  // namespace psring
