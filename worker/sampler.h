// Which samples each step trains on: a pure function of the seed and the step, so that
// every mode and every number of workers consumes the same data in the same order.
#ifndef PSRING_WORKER_SAMPLER_H_
#define PSRING_WORKER_SAMPLER_H_

#include <cstdint>
#include <span>
#include <vector>

namespace psring {

// An epoch is a permutation of the training set, cut into global batches and, where that
// is wanted, a smaller last one; what is left behind them is left out of that epoch. Each
// epoch has a permutation of its own, drawn from the seed and the epoch's number alone,
// and only the current one is kept: a step in another epoch costs one shuffle. Not
// thread-safe.
//
// The permutation is a Fisher-Yates shuffle over xoshiro256** (Blackman and Vigna, 2018)
// seeded through SplitMix64, with Lemire's (2019) unbiased bounded draw; all of it is
// integer arithmetic, alike on every machine and compiler.
class Sampler {
 public:
  // `last_batch` samples of each epoch, if not 0, are a step after those of whole global
  // batches. Requires 0 < global_batch <= sample_count, and that so many are left.
  Sampler(int64_t sample_count, int64_t global_batch, uint64_t seed,
          int64_t last_batch = 0);

  int64_t steps_per_epoch() const {
    return sample_count_ / global_batch_ + (last_batch_ > 0 ? 1 : 0);
  }

  // Sample indices of step >= 0 over all workers. Valid until the next call.
  std::span<const int64_t> GlobalBatch(int64_t step);

  // Rank r's part of it: the r-th of `workers` contiguous parts of a whole global batch
  // (common/partition.h); empty where a smaller batch does not have all of this part.
  std::span<const int64_t> WorkerBatch(int64_t step, int64_t workers, int64_t rank);

 private:
  const int64_t sample_count_;
  const int64_t global_batch_;
  const uint64_t seed_;
  const int64_t last_batch_;
  int64_t epoch_ = -1;                // Of permutation_; -1: none yet.
  std::vector<int64_t> permutation_;  // Of [0, sample_count).
};

}  // namespace psring

#endif  // PSRING_WORKER_SAMPLER_H_
