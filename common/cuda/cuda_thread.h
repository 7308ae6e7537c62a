// What a thread of a kernel (common/cuda/kernel_call.h) sees on a GPU. Only nvcc compiles
// it.
#ifndef PSRING_COMMON_CUDA_CUDA_THREAD_H_
#define PSRING_COMMON_CUDA_CUDA_THREAD_H_

#ifndef __CUDACC__
#error "common/cuda/cuda_thread.h is for .cu files"
#endif

#include <cstdint>
#include <type_traits>

#include "common/cuda/kernel_call.h"

namespace psring {

class CudaThread {
 public:
  PSRING_DEVICE int thread() const { return static_cast<int>(threadIdx.x); }
  PSRING_DEVICE int threads() const { return static_cast<int>(blockDim.x); }
  PSRING_DEVICE int64_t block() const { return blockIdx.x; }
  PSRING_DEVICE int64_t blocks() const { return gridDim.x; }
  PSRING_DEVICE int lane() const { return thread() % kWarp; }

  PSRING_DEVICE void Barrier() { __syncthreads(); }
  template <typename Value>
  PSRING_DEVICE Value ShuffleDown(Value value, int step) {
    return __shfl_down_sync(kAllLanes, value, step);
  }
  template <typename Value>
  PSRING_DEVICE Value ShuffleXor(Value value, int mask) {
    return __shfl_xor_sync(kAllLanes, value, mask);
  }

  PSRING_DEVICE void AtomicAdd(uint64_t* sum, uint64_t addend) {
    atomicAdd(reinterpret_cast<unsigned long long*>(sum), addend);
  }
  PSRING_DEVICE void AtomicMin(uint64_t* least, uint64_t value) {
    atomicMin(reinterpret_cast<unsigned long long*>(least), value);
  }

  template <int kWidth, typename Value>
  PSRING_DEVICE Pack<Value, kWidth> Load(const Value* from) {
    return *reinterpret_cast<const Pack<Value, kWidth>*>(from);
  }
  template <typename Value, int kWidth>
  PSRING_DEVICE void Store(Value* to, const Pack<Value, kWidth>& pack) {
    *reinterpret_cast<Pack<Value, kWidth>*>(to) = pack;
  }

  template <typename Value, int kCount>
  class Array {
   public:
    PSRING_DEVICE Value Get(CudaThread&, int index) const { return values_[index]; }
    PSRING_DEVICE void Set(CudaThread&, int index, Value value) {
      values_[index] = value;
    }

   private:
    Value values_[kCount];
  };

 private:
  static constexpr unsigned kAllLanes = 0xffffffff;
};

template <typename Kernel>
__global__ void __launch_bounds__(Kernel::kThreads) RunKernel(const Kernel kernel) {
  using Shared = typename Kernel::template Shared<CudaThread>;
  CudaThread thread;
  if constexpr (std::is_empty_v<Shared>) {
    Shared nothing;
    kernel(thread, nothing);
  } else {
    __shared__ Shared shared;
    kernel(thread, shared);
  }
}

}  // namespace psring

#endif  // PSRING_COMMON_CUDA_CUDA_THREAD_H_
