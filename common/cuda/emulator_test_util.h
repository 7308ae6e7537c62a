// For tests that run kernels in the emulator: values, and memory that begins where asked.
#ifndef PSRING_COMMON_CUDA_EMULATOR_TEST_UTIL_H_
#define PSRING_COMMON_CUDA_EMULATOR_TEST_UTIL_H_

#include <bit>
#include <cstdint>
#include <span>
#include <vector>

#include "common/cuda/emulator.h"
#include "common/cuda/kernel_call.h"
#include "common/status_matchers.h"
#include "gtest/gtest.h"

namespace psring {

// Around a four, a warp, a block, and several blocks of every kernel.
inline constexpr int64_t kEmulatedCounts[] = {0, 1, 3, 4, 33, 257, 2061};

// In (-1, 1), another for each index and seed.
inline std::vector<float> ValuesOf(int64_t count, uint32_t seed) {
  std::vector<float> values(count);
  for (float& value : values) {
    seed = seed * 1664525u + 1013904223u;
    value = static_cast<float>(static_cast<int32_t>(seed)) * 0x1p-31f;
  }
  return values;
}

// A copy of values that begins `offset` elements after an address with fours, and whose
// end is the memory's, so that the address sanitizer sees what goes beyond.
template <typename Value>
class PlacedValues {
 public:
  PlacedValues(std::span<const Value> values, int64_t offset)
      : offset_(offset), memory_(offset) {
    EXPECT_EQ(reinterpret_cast<uintptr_t>(memory_.data()) % 16, 0u);
    memory_.insert(memory_.end(), values.begin(), values.end());
    memory_.shrink_to_fit();
  }
  Value* data() { return memory_.data() + offset_; }
  std::vector<Value> values() const { return {memory_.begin() + offset_, memory_.end()}; }

 private:
  const int64_t offset_;
  std::vector<Value> memory_;
};

// Their bits: NaN is NaN, and 0 not -0.
template <typename Value>
std::vector<uint32_t> BitsOf(const std::vector<Value>& values) {
  std::vector<uint32_t> bits;
  for (const Value& value : values) {
    if constexpr (sizeof(Value) == 4) {
      bits.push_back(std::bit_cast<uint32_t>(value));
    } else {
      bits.push_back(value);
    }
  }
  return bits;
}

// Runs `check(offset, order, blocks)`, which makes and emulates a call, for several of
// each: blocks are to be the call's, or one, whose threads go round several times.
template <typename Check>
void InEveryWay(Check check) {
  int round = 0;
  for (const int64_t offset : {0, 1, 3}) {
    for (const int64_t blocks : {kMaxBlocks, int64_t{1}}) {
      const ThreadOrder order = kThreadOrders[round++ % 3];
      SCOPED_TRACE(testing::Message()
                   << "offset " << offset << ", order " << static_cast<int>(order)
                   << ", at most " << blocks << " blocks");
      check(offset, order, blocks);
      if (testing::Test::HasFatalFailure()) return;
    }
  }
}

template <typename Kernel>
absl::Status EmulateWith(KernelCall<Kernel> call, ThreadOrder order, int64_t blocks) {
  call.blocks = blocks < call.blocks ? blocks : call.blocks;
  return Emulate(call, order);
}

}  // namespace psring

#endif  // PSRING_COMMON_CUDA_EMULATOR_TEST_UTIL_H_
