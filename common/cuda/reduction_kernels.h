// Kernels in which threads work together. None adds floats in an order that could change:
// a sum's order follows from its length alone, or what is added are integers.
#ifndef PSRING_COMMON_CUDA_REDUCTION_KERNELS_H_
#define PSRING_COMMON_CUDA_REDUCTION_KERNELS_H_

#include <math.h>

#include <cstdint>

#include "common/cuda/elementwise_kernels.h"
#include "common/cuda/kernel_call.h"
#include "common/cuda/vector_cut.h"
#include "common/digest_term.h"
#include "common/float_bits.h"

namespace psring {

// Of the values of a warp's lanes, in a tree: (lane 0 + lane 16) + (lane 8 + lane 24) ...
// Lane 0 gets it.
template <typename Thread, typename Value>
PSRING_DEVICE Value WarpSum(Thread& thread, Value value) {
  for (int step = kWarp / 2; step > 0; step /= 2) {
    value += thread.ShuffleDown(value, step);
  }
  return value;
}

// The same bits for every lane: where lanes meet, a + b is b + a.
template <typename Thread, typename Value>
PSRING_DEVICE Value WarpSumForAll(Thread& thread, Value value) {
  for (int step = kWarp / 2; step > 0; step /= 2) {
    value += thread.ShuffleXor(value, step);
  }
  return value;
}

// sums[column] = the sum of values[row * columns + column] over rows. Row r belongs to
// group r mod kGroups; each group is added up in order of rows, then the groups in order:
// (g[0] + g[1]) + g[2] ... A sum starts with a copy of its first term; without rows it is
// 0.
struct SumColumnsKernel {
  static constexpr int kColumns = kWarp;  // Of a block: a warp reads consecutive floats.
  static constexpr int kGroups = 16;
  static constexpr int kThreads = kColumns * kGroups;
  template <typename Thread>
  struct Shared {
    typename Thread::template Array<float, kThreads> groups;
  };

  int64_t rows = 0;
  int64_t columns = 0;
  const float* values = nullptr;
  float* sums = nullptr;

  template <typename Thread>
  PSRING_DEVICE void operator()(Thread& thread, Shared<Thread>& shared) const {
    const int group = thread.thread() / kColumns;
    for (int64_t tile = thread.block(); tile * kColumns < columns;
         tile += thread.blocks()) {
      const int64_t column = tile * kColumns + thread.lane();
      if (column < columns && group < rows) {
        float sum = values[group * columns + column];
        for (int64_t row = group + kGroups; row < rows; row += kGroups) {
          sum += values[row * columns + column];
        }
        shared.groups.Set(thread, thread.thread(), sum);
      }
      thread.Barrier();
      if (group == 0 && column < columns) {
        float sum = rows > 0 ? shared.groups.Get(thread, thread.lane()) : 0.0f;
        for (int other = 1; other < kGroups && other < rows; ++other) {
          sum += shared.groups.Get(thread, other * kColumns + thread.lane());
        }
        sums[column] = sum;
      }
      thread.Barrier();  // The next tile's groups come into the same memory.
    }
  }
};

// A warp for each row. The row's logits become the gradient of the mean loss,
// (softmax - one-hot) / rows; losses[row] is its cross-entropy; *correct counts the rows
// whose largest logit, of equal ones the first, is their label's.
struct SoftmaxCrossEntropyKernel {
  static constexpr int kThreads = 256;
  static constexpr int kRows = kThreads / kWarp;  // Of a block, at a time.
  template <typename Thread>
  using Shared = NothingShared;

  int64_t rows = 0;
  int64_t classes = 0;
  const int32_t* labels = nullptr;
  float* logits = nullptr;
  float* losses = nullptr;
  uint64_t* correct = nullptr;

  template <typename Thread>
  PSRING_DEVICE void operator()(Thread& thread, NothingShared&) const {
    const float scale = 1.0f / static_cast<float>(rows);
    const int warp = thread.thread() / kWarp;
    uint64_t hits = 0;
    for (int64_t row = thread.block() * kRows + warp; row < rows;
         row += thread.blocks() * kRows) {
      float* const values = logits + row * classes;
      const int64_t label = labels[row];
      const Largest largest = LargestOfRow(thread, values);
      float sum = 0;
      for (int64_t c = thread.lane(); c < classes; c += kWarp) {
        sum += expf(values[c] - largest.value);
      }
      const float log_sum = logf(WarpSumForAll(thread, sum));
      for (int64_t c = thread.lane(); c < classes; c += kWarp) {
        const float log_probability = values[c] - largest.value - log_sum;
        if (c == label) losses[row] = -log_probability;
        values[c] = expf(log_probability) * scale - (c == label ? scale : 0.0f);
      }
      hits += largest.index == label ? 1 : 0;
    }
    if (thread.lane() == 0 && hits > 0) thread.AtomicAdd(correct, hits);
  }

 private:
  struct Largest {
    float value;
    int64_t index;
  };

  // The same for every lane, unless there is something that is not a number: then the sum
  // of exponentials is none either.
  template <typename Thread>
  PSRING_DEVICE Largest LargestOfRow(Thread& thread, const float* values) const {
    Largest largest = {-INFINITY, classes};
    for (int64_t c = thread.lane(); c < classes; c += kWarp) {
      if (values[c] > largest.value || largest.index == classes) {
        largest = {values[c], c};
      }
    }
    for (int step = kWarp / 2; step > 0; step /= 2) {
      const Largest other = {thread.ShuffleXor(largest.value, step),
                             thread.ShuffleXor(largest.index, step)};
      if (other.value > largest.value ||
          (other.value == largest.value && other.index < largest.index)) {
        largest = other;
      }
    }
    return largest;
  }
};

// *mean = the mean of values[0 .. count), count > 0, in double precision: thread t of one
// block adds up values t, t + kThreads, ..., then the threads' sums go into one in a
// tree.
struct MeanKernel {
  static constexpr int kThreads = 256;
  template <typename Thread>
  struct Shared {
    typename Thread::template Array<double, kThreads> sums;
  };

  int64_t count = 0;
  const float* values = nullptr;
  double* mean = nullptr;

  template <typename Thread>
  PSRING_DEVICE void operator()(Thread& thread, Shared<Thread>& shared) const {
    const int me = thread.thread();
    double sum = 0;
    for (int64_t i = me; i < count; i += kThreads) sum += values[i];
    shared.sums.Set(thread, me, sum);
    for (int half = kThreads / 2; half > 0; half /= 2) {
      thread.Barrier();
      if (me < half) {
        sum += shared.sums.Get(thread, me + half);
        shared.sums.Set(thread, me, sum);
      }
    }
    if (me == 0) *mean = sum / static_cast<double>(count);
  }
};

// Adds to *sum the digest (common/digest.h) of values that begin at `first_index`.
struct DigestKernel {
  static constexpr int kThreads = 256;
  template <typename Thread>
  using Shared = NothingShared;

  VectorCut cut;
  const float* values = nullptr;
  uint64_t first_index = 0;
  uint64_t* sum = nullptr;

  template <typename Thread>
  PSRING_DEVICE void operator()(Thread& thread, NothingShared&) const {
    Terms terms = {values, first_index};
    ForEach(thread, cut, terms);
    const uint64_t of_warp = WarpSum(thread, terms.sum);
    if (thread.lane() == 0) thread.AtomicAdd(sum, of_warp);
  }

 private:
  struct Terms {
    const float* values;
    uint64_t first_index;
    uint64_t sum = 0;

    template <int kWidth, typename Thread>
    PSRING_DEVICE void At(Thread& thread, int64_t i) {
      const auto pack = thread.template Load<kWidth>(values + i);
      for (int k = 0; k < kWidth; ++k) {
        sum += DigestTerm(pack.at[k], first_index + static_cast<uint64_t>(i + k));
      }
    }
  };
};

// *found = the least of itself and the index of the first value whose magnitude is above
// `largest`, or that is not a number.
struct FindBeyondKernel {
  static constexpr int kThreads = 256;
  template <typename Thread>
  using Shared = NothingShared;

  VectorCut cut;
  const float* values = nullptr;
  int32_t largest_bits = 0;  // MagnitudeBits(largest)
  uint64_t* found = nullptr;

  template <typename Thread>
  PSRING_DEVICE void operator()(Thread& thread, NothingShared&) const {
    Least least = {values, largest_bits};
    ForEach(thread, cut, least);
    for (int step = kWarp / 2; step > 0; step /= 2) {
      const uint64_t other = thread.ShuffleDown(least.index, step);
      if (other < least.index) least.index = other;
    }
    if (thread.lane() == 0 && least.index != kNothingFound) {
      thread.AtomicMin(found, least.index);
    }
  }

 private:
  struct Least {
    const float* values;
    int32_t largest_bits;
    uint64_t index = kNothingFound;

    template <int kWidth, typename Thread>
    PSRING_DEVICE void At(Thread& thread, int64_t i) {
      const auto pack = thread.template Load<kWidth>(values + i);
      for (int k = 0; k < kWidth; ++k) {
        const auto here = static_cast<uint64_t>(i + k);
        if (MagnitudeBits(pack.at[k]) > largest_bits && here < index) index = here;
      }
    }
  };
};

// The calls; common/cuda/kernels.h says what of.

inline KernelCall<SumColumnsKernel> CallSumColumns(int64_t rows, int64_t columns,
                                                   const float* values, float* sums) {
  return {.kernel = {.rows = rows, .columns = columns, .values = values, .sums = sums},
          .blocks = BlocksFor(columns, SumColumnsKernel::kColumns)};
}

inline KernelCall<SoftmaxCrossEntropyKernel> CallSoftmaxCrossEntropy(
    int64_t rows, int64_t classes, const int32_t* labels, float* logits, float* losses,
    uint64_t* correct) {
  return {.kernel = {.rows = rows,
                     .classes = classes,
                     .labels = labels,
                     .logits = logits,
                     .losses = losses,
                     .correct = correct},
          .blocks = BlocksFor(rows, SoftmaxCrossEntropyKernel::kRows)};
}

inline KernelCall<MeanKernel> CallMean(int64_t count, const float* values, double* mean) {
  return {.kernel = {.count = count, .values = values, .mean = mean},
          .blocks = count > 0 ? 1 : 0};
}

inline KernelCall<DigestKernel> CallDigest(int64_t count, const float* values,
                                           int64_t first_index, uint64_t* sum) {
  const VectorCut cut = CutOf(count, values);
  return {.kernel = {.cut = cut,
                     .values = values,
                     .first_index = static_cast<uint64_t>(first_index),
                     .sum = sum},
          .blocks = BlocksFor(cut, DigestKernel::kThreads)};
}

inline KernelCall<FindBeyondKernel> CallFindBeyond(int64_t count, const float* values,
                                                   float largest, uint64_t* found) {
  const VectorCut cut = CutOf(count, values);
  return {.kernel = {.cut = cut,
                     .values = values,
                     .largest_bits = MagnitudeBits(largest),
                     .found = found},
          .blocks = BlocksFor(cut, FindBeyondKernel::kThreads)};
}

}  // namespace psring

#endif  // PSRING_COMMON_CUDA_REDUCTION_KERNELS_H_
