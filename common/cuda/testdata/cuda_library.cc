// The names of the functions of NCCL and cuBLAS that psring takes, to be found, and of
// these only versions to be called: of both $VERSION_OF_TESTS, as NCCL writes its own.
// Without WITH_SUMS one of each is missing.
#include <cstdlib>

namespace {

int Version() { return std::atoi(std::getenv("VERSION_OF_TESTS")); }

}  // namespace

extern "C" {

int ncclGetVersion(int* version) {
  *version = Version();
  return 0;
}

// Major, minor and patch are 0, 1 and 2.
int cublasGetProperty(int property, int* value) {
  const int parts[] = {Version() / 10000, Version() / 100 % 100, Version() % 100};
  *value = parts[property];
  return 0;
}

void ncclGetUniqueId() {}
void ncclCommInitRankConfig() {}
void ncclCommGetAsyncError() {}
void ncclCommAbort() {}
void ncclCommFinalize() {}
void ncclCommDestroy() {}
void ncclBroadcast() {}
void ncclGroupStart() {}
void ncclGroupEnd() {}
void ncclGetErrorString() {}
void ncclGetLastError() {}
void cublasCreate_v2() {}
void cublasDestroy_v2() {}
void cublasGetVersion_v2() {}
void cublasSetStream_v2() {}
void cublasSetMathMode() {}
void cublasGetStatusString() {}
#ifdef WITH_SUMS
void ncclAllReduce() {}
void cublasSgemm_v2() {}
#endif
}
