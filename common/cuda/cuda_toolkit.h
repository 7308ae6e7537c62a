// What the build knows of the CUDA toolkit (third_party/cuda.bzl). Its BUILD file makes
// the source. Each is empty where it has nothing to say.
#ifndef PSRING_COMMON_CUDA_CUDA_TOOLKIT_H_
#define PSRING_COMMON_CUDA_CUDA_TOOLKIT_H_

namespace psring {

extern const char kCudaMissing[];        // Why the program is built without it.
extern const char kCudaVersion[];        // "13.0".
extern const char kCudaArchitectures[];  // "sm_80, sm_90, PTX of compute_90".
extern const char kCudaLibraries[];      // The folder of its libraries.

}  // namespace psring

#endif  // PSRING_COMMON_CUDA_CUDA_TOOLKIT_H_
