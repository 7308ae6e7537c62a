// Functions of single elements that decide bits, written once for processors and GPUs.
#ifndef PSRING_COMMON_HOST_DEVICE_H_
#define PSRING_COMMON_HOST_DEVICE_H_

// Before a function's type; includes `inline`. A processor's loops are compiled once per
// vector unit (common/vectorize.h), and a function becomes part of each only where
// inlining is not left to the compiler. Kernels are compiled without contraction too
// (-fmad=false), so that both round alike.
//
// PSRING_DEVICE is for what kernels are made of: GPUs run it, and the emulator of blocks
// and warps (common/cuda/emulator.h).
#if defined(__CUDACC__)
#define PSRING_HOST_DEVICE __host__ __device__ __forceinline__
#define PSRING_DEVICE __device__ __forceinline__
#else
#define PSRING_HOST_DEVICE __attribute__((always_inline)) inline
#define PSRING_DEVICE inline
#endif

#endif  // PSRING_COMMON_HOST_DEVICE_H_
