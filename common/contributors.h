// How an epoch of samples becomes steps, and how many workers have samples in each of
// them. Pure.
#ifndef PSRING_COMMON_CONTRIBUTORS_H_
#define PSRING_COMMON_CONTRIBUTORS_H_

#include <cstdint>

namespace psring {

// Of one epoch. Each worker has global_batch / workers samples of a step, its part, or
// none.
struct EpochPlan {
  int64_t steps = 0;
  int last_contributors = 0;  // Workers that have their part of the last step.
  int64_t left_out = 0;       // Samples that no step uses.
};

// Whole global batches and, with `join`, one more step of as many whole parts as are
// left, if there is one. Requires samples >= global_batch > 0, a multiple of `workers`.
constexpr EpochPlan PlanEpoch(int64_t samples, int64_t global_batch, int workers,
                              bool join) {
  const int64_t part = global_batch / workers;
  const int64_t parts_left = join ? samples % global_batch / part : 0;
  return {.steps = samples / global_batch + (parts_left > 0 ? 1 : 0),
          .last_contributors = parts_left > 0 ? static_cast<int>(parts_left) : workers,
          .left_out = samples % global_batch - parts_left * part};
}

// The workers that have samples in a step are the ranks below a number, which the step
// decides: all of them, but for the last step of an epoch of which they do not all have
// a part. The mean gradient of a step is over them; the others contribute zeros. A value.
class Contributors {
 public:
  // All of them in every step.
  explicit Contributors(int workers) : Contributors(workers, 1, workers) {}
  // `last` of them in the last of each `steps_per_epoch` steps. Requires
  // steps_per_epoch >= 1 and 1 <= last <= workers.
  Contributors(int workers, int64_t steps_per_epoch, int last)
      : workers_(workers), steps_per_epoch_(steps_per_epoch), last_(last) {}

  int At(int64_t step) const {
    return (step + 1) % steps_per_epoch_ == 0 ? last_ : workers_;
  }
  // How many of the first `steps` steps the rank has samples in.
  int64_t StepsOf(int rank, int64_t steps) const {
    return rank < last_ ? steps : steps - steps / steps_per_epoch_;
  }

 private:
  int workers_;
  int64_t steps_per_epoch_;
  int last_;
};

}  // namespace psring

#endif  // PSRING_COMMON_CONTRIBUTORS_H_
