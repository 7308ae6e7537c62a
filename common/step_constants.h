// The numbers of the optimizer that change with the step, and where an exchange or a
// shard gets them from.
#ifndef PSRING_COMMON_STEP_CONSTANTS_H_
#define PSRING_COMMON_STEP_CONSTANTS_H_

#include <cstdint>

#include "absl/status/statusor.h"

namespace psring {

// They are rounded once, where they are computed; common/schedule.h says how.
struct StepConstants {
  float learning_rate = 0;
  // Of Adam and AdamW, whose t is the step's number counted from 1; else 0.
  float adam_step_size = 0;   // learning_rate / (1 - beta1^t)
  float adam_root_scale = 0;  // 1 / sqrt(1 - beta2^t)

  friend bool operator==(const StepConstants&, const StepConstants&) = default;
};

// Any thread. Its users apply the updates of a run about in order, and each step must
// have the same constants wherever it is applied.
class StepConstantsSource {
 public:
  virtual ~StepConstantsSource() = default;

  // Of step `step`, counted from 0: the number of updates that the parameters have seen
  // before. May block, for a limited time, so no lock is held that others need.
  // kOutOfRange: the run has no such step. Any other error is the end of the source, and
  // every later call returns it.
  virtual absl::StatusOr<StepConstants> At(int64_t step) = 0;
};

}  // namespace psring

#endif  // PSRING_COMMON_STEP_CONSTANTS_H_
