// Runs a kernel (common/cuda/kernel_call.h) on the processor, with blocks, warps,
// barriers, shuffles and shared memory that mean what they mean on a GPU. For tests.
#ifndef PSRING_COMMON_CUDA_EMULATOR_H_
#define PSRING_COMMON_CUDA_EMULATOR_H_

#include <array>
#include <cstdint>
#include <cstring>
#include <memory>
#include <string>
#include <type_traits>

#include "absl/functional/function_ref.h"
#include "absl/status/status.h"
#include "common/cuda/kernel_call.h"

namespace psring {

// In which order the threads of a block come to run, between two places where they meet,
// and the blocks of a call. A kernel that is right gives the same in all of them.
enum class ThreadOrder { kAscending, kDescending, kShuffled };
inline constexpr ThreadOrder kThreadOrders[] = {
    ThreadOrder::kAscending, ThreadOrder::kDescending, ThreadOrder::kShuffled};

// Runs all blocks of a call, one after the other, each of whose threads is a fiber. What
// a GPU leaves undefined is FailedPrecondition, with block and threads, and ends the
// call:
//
//  - a thread that waits at a barrier or in a shuffle for one that has ended or waits
//    elsewhere (in another line, or in a shuffle by another number of lanes);
//  - shared memory that a thread reads before any has written it, or that two threads use
//    without a barrier between, one of them writing; an index outside of it;
//  - several values loaded or stored at once that are not aligned to their size.
//
// It does not see races in global memory but where they change results in one of the
// orders, and knows neither warps that run ahead of others within a block nor blocks that
// run at once.
template <typename Kernel>
absl::Status Emulate(const KernelCall<Kernel>& call,
                     ThreadOrder order = ThreadOrder::kAscending);

class EmulatedBlocks;

// Who has used a value in a block's memory, counted in barriers of the call.
struct SharedUse {
  static constexpr int64_t kNever = -1;
  static constexpr int kSeveral = -1;  // Threads.

  int64_t written = kNever;
  int writer = 0;
  int64_t read = kNever;
  int reader = 0;
};

// What a thread of a kernel sees.
class EmulatedThread {
 public:
  int thread() const { return thread_; }
  int threads() const;
  int64_t block() const;
  int64_t blocks() const;
  int lane() const { return thread_ % kWarp; }

  // `line` is the caller's.
  void Barrier(int line = __builtin_LINE()) { Meet({Meeting::kBarrier, line, 0}); }
  template <typename Value>
  Value ShuffleDown(Value value, int step, int line = __builtin_LINE()) {
    return Shuffle(value, {Meeting::kShuffleDown, line, step});
  }
  template <typename Value>
  Value ShuffleXor(Value value, int mask, int line = __builtin_LINE()) {
    return Shuffle(value, {Meeting::kShuffleXor, line, mask});
  }

  void AtomicAdd(uint64_t* sum, uint64_t addend) { *sum += addend; }
  void AtomicMin(uint64_t* least, uint64_t value) {
    if (value < *least) *least = value;
  }

  template <int kWidth, typename Value>
  Pack<Value, kWidth> Load(const Value* from) {
    CheckAligned(from, sizeof(Value) * kWidth);
    Pack<Value, kWidth> pack;
    std::memcpy(&pack, from, sizeof(pack));
    return pack;
  }
  template <typename Value, int kWidth>
  void Store(Value* to, const Pack<Value, kWidth>& pack) {
    CheckAligned(to, sizeof(Value) * kWidth);
    std::memcpy(to, &pack, sizeof(pack));
  }

  // Knows for each value who has used it since the last barrier.
  template <typename Value, int kCount>
  class Array {
   public:
    Value Get(EmulatedThread& thread, int index) {
      thread.CheckIndex(index, kCount);
      thread.NoteRead(uses_[index], index);
      return values_[index];
    }
    void Set(EmulatedThread& thread, int index, Value value) {
      thread.CheckIndex(index, kCount);
      thread.NoteWrite(uses_[index], index);
      values_[index] = value;
    }

   private:
    std::array<Value, kCount> values_;
    std::array<SharedUse, kCount> uses_;
  };

 private:
  friend class EmulatedBlocks;

  // Where threads wait for each other, all of which have to be the same.
  struct Meeting {
    enum Kind { kNone, kBarrier, kShuffleDown, kShuffleXor, kEnded } kind = kNone;
    int line = 0;
    int step = 0;  // Of a shuffle.
    friend bool operator==(const Meeting&, const Meeting&) = default;
    std::string ToString() const;
  };

  EmulatedThread(EmulatedBlocks* blocks, int thread) : blocks_(blocks), thread_(thread) {}

  template <typename Value>
  Value Shuffle(Value value, const Meeting& meeting) {
    static_assert(std::is_arithmetic_v<Value> && sizeof(Value) <= sizeof(carried_));
    std::memcpy(&carried_, &value, sizeof(Value));
    Meet(meeting);
    std::memcpy(&value, &carried_, sizeof(Value));
    return value;
  }
  void Meet(const Meeting& meeting);
  void CheckAligned(const void* address, size_t bytes);
  void CheckIndex(int index, int count);
  void NoteRead(SharedUse& use, int index);
  void NoteWrite(SharedUse& use, int index);
  void SetError(const std::string& what);
  [[noreturn]] void Stop();  // After it.

  EmulatedBlocks* const blocks_;
  const int thread_;
  Meeting waits_;
  uint64_t carried_ = 0;  // Into a shuffle, and out of it.
};

// Emulate without types: `start_block` comes before each block, and `body` is what each
// thread runs.
absl::Status EmulateBlocks(int64_t blocks, int threads, ThreadOrder order,
                           absl::FunctionRef<void()> start_block,
                           absl::FunctionRef<void(EmulatedThread&)> body);

template <typename Kernel>
absl::Status Emulate(const KernelCall<Kernel>& call, ThreadOrder order) {
  static_assert(Kernel::kThreads > 0 && Kernel::kThreads <= 1024);
  static_assert(Kernel::kThreads % kWarp == 0);
  using Shared = typename Kernel::template Shared<EmulatedThread>;
  std::unique_ptr<Shared> shared;
  return EmulateBlocks(
      call.blocks, Kernel::kThreads, order,
      [&shared] { shared = std::make_unique<Shared>(); },
      [&call, &shared](EmulatedThread& thread) { call.kernel(thread, *shared); });
}

}  // namespace psring

#endif  // PSRING_COMMON_CUDA_EMULATOR_H_
