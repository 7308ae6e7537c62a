// How kernels go over long arrays: most of it four elements at a time.
#ifndef PSRING_COMMON_CUDA_VECTOR_CUT_H_
#define PSRING_COMMON_CUDA_VECTOR_CUT_H_

#include <cstdint>
#include <initializer_list>

#include "common/cuda/kernel_call.h"

namespace psring {

inline constexpr int kFour = 4;

// `count` elements: singly up to `head`, then `fours` times four, then singly again.
struct VectorCut {
  int64_t count = 0;
  int64_t head = 0;
  int64_t fours = 0;

  PSRING_HOST_DEVICE int64_t singles() const { return count - kFour * fours; }
  // Of the n-th four, 0 <= n < fours, its first element.
  PSRING_HOST_DEVICE int64_t FourAt(int64_t n) const { return head + kFour * n; }
  // The n-th element that goes singly, 0 <= n < singles().
  PSRING_HOST_DEVICE int64_t SingleAt(int64_t n) const {
    return n < head ? n : n + kFour * fours;
  }
};

// By where the arrays' first elements are, counted in elements from an address at which
// four of them are aligned: slices of buffers that begin alike are cut alike, and those
// that do not go singly.
constexpr VectorCut CutAt(int64_t count, std::initializer_list<int64_t> positions) {
  const int64_t position = *positions.begin() % kFour;
  for (const int64_t other : positions) {
    if (other % kFour != position) return {.count = count, .head = count, .fours = 0};
  }
  const int64_t until_aligned = (kFour - position) % kFour;
  const int64_t head = until_aligned < count ? until_aligned : count;
  return {.count = count, .head = head, .fours = (count - head) / kFour};
}

// `arrays` are aligned to their elements.
template <typename... Value>
VectorCut CutOf(int64_t count, const Value*... arrays) {
  return CutAt(count, {static_cast<int64_t>(reinterpret_cast<uintptr_t>(arrays) /
                                            sizeof(Value) % kFour)...});
}

// Runs `element.At<1 or 4>(thread, i)` for all elements from i on, once each, by all
// threads of all blocks.
template <typename Thread, typename Element>
PSRING_DEVICE void ForEach(Thread& thread, const VectorCut& cut, Element& element) {
  const int64_t first = thread.block() * thread.threads() + thread.thread();
  const int64_t stride = thread.blocks() * thread.threads();
  for (int64_t n = first; n < cut.fours; n += stride) {
    element.template At<kFour>(thread, cut.FourAt(n));
  }
  for (int64_t n = first; n < cut.singles(); n += stride) {
    element.template At<1>(thread, cut.SingleAt(n));
  }
}

// Of a kernel that goes over `cut` with blocks of `threads`.
constexpr int64_t BlocksFor(const VectorCut& cut, int threads) {
  const int64_t singles = cut.count - kFour * cut.fours;
  return BlocksFor(cut.fours > singles ? cut.fours : singles, threads);
}

}  // namespace psring

#endif  // PSRING_COMMON_CUDA_VECTOR_CUT_H_
