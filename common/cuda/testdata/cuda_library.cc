// The names of the functions of NCCL and cuBLAS that psring takes and tests do not call;
// the others are in cuda_versions.cc. Without WITH_SUMS one of each is missing.
extern "C" {

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
