// The functions of NCCL and cuBLAS that tests call, of the right types: both libraries
// have $VERSION_OF_TESTS, as NCCL writes its own.
#include <cstdlib>

#include "cublas_v2.h"
#include "nccl.h"

namespace {

int VersionOfTests() { return std::atoi(std::getenv("VERSION_OF_TESTS")); }

}  // namespace

ncclResult_t ncclGetVersion(int* version) {
  *version = VersionOfTests();
  return ncclSuccess;
}

cublasStatus_t cublasGetProperty(libraryPropertyType type, int* value) {
  const int version = VersionOfTests();
  *value = type == MAJOR_VERSION   ? version / 10000
           : type == MINOR_VERSION ? version / 100 % 100
                                   : version % 100;
  return CUBLAS_STATUS_SUCCESS;
}
