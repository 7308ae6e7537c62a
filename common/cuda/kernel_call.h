// What a kernel is, apart from where it runs: on a GPU (common/cuda/kernels.cu) or in the
// emulator of blocks and warps (common/cuda/emulator.h).
#ifndef PSRING_COMMON_CUDA_KERNEL_CALL_H_
#define PSRING_COMMON_CUDA_KERNEL_CALL_H_

#include <cstdint>

#include "common/host_device.h"

namespace psring {

// A kernel is a struct: its members are the arguments, and
//
//   static constexpr int kThreads;                     // of a block, a multiple of kWarp
//   template <typename Thread> struct Shared;          // a block's memory, of Arrays
//   template <typename Thread>
//   PSRING_DEVICE void operator()(Thread& thread, Shared<Thread>& shared) const;
//
// is what each thread runs. It knows of the thread that it is, and of the other threads,
// by `Thread` alone, which is CudaThread or EmulatedThread:
//
//   int thread(), threads()      its number in the block, and how many there are
//   int64_t block(), blocks()    the same of the block
//   int lane()                   its number in the warp
//   void Barrier()               for all threads of the block: before it and after it are
//                                apart for what they write into shared memory
//   Value ShuffleDown(value, n)  for all lanes of the warp: the value of lane() + n; its
//                                own where there is none
//   Value ShuffleXor(value, n)   the same of lane() ^ n
//   void AtomicAdd(sum, addend)  on uint64_t in global memory, in no order
//   void AtomicMin(least, value)
//   Load<kWidth>(from)           kWidth consecutive values at once, aligned to their size
//   Store(to, pack)
//   Array<Value, kCount>         shared memory: Get(thread, i), Set(thread, i, value);
//                                undefined at first
inline constexpr int kWarp = 32;

// Values that are loaded or stored at once.
template <typename Value, int kWidth>
struct alignas(sizeof(Value) * kWidth) Pack {
  Value at[kWidth];
};

// That of a kernel whose threads do not share memory.
struct NothingShared {};

// A kernel with its arguments, and how many blocks are to run it. No blocks: nothing to
// do.
template <typename Kernel>
struct KernelCall {
  Kernel kernel;
  int64_t blocks = 0;
};

// The most blocks that are started: kernels stride over the rest. Several for each
// multiprocessor of any GPU.
inline constexpr int64_t kMaxBlocks = 2048;

// Blocks for `count` pieces of work of which each does `per_block` at a time.
constexpr int64_t BlocksFor(int64_t count, int64_t per_block) {
  const int64_t blocks = (count + per_block - 1) / per_block;
  return blocks < kMaxBlocks ? blocks : kMaxBlocks;
}

}  // namespace psring

#endif  // PSRING_COMMON_CUDA_KERNEL_CALL_H_
