// Step constants computed on the spot: where workers and servers share a process.
#ifndef PSRING_COMMON_COMPUTED_STEP_CONSTANTS_H_
#define PSRING_COMMON_COMPUTED_STEP_CONSTANTS_H_

#include <cstdint>
#include <utility>

#include "absl/status/status.h"
#include "absl/strings/str_cat.h"
#include "common/schedule.h"
#include "common/step_constants.h"
#include "proto/experiment.pb.h"

namespace psring {

// Of a run of `steps` steps. Never blocks.
class ComputedStepConstants final : public StepConstantsSource {
 public:
  ComputedStepConstants(Optimizer settings, int64_t steps)
      : settings_(std::move(settings)), steps_(steps) {}

  absl::StatusOr<StepConstants> At(int64_t step) override {
    if (step < 0 || step >= steps_) {
      return absl::OutOfRangeError(
          absl::StrCat("step ", step, " of a run of ", steps_, " steps"));
    }
    return StepConstantsAt(settings_, steps_, step);
  }

 private:
  const Optimizer settings_;
  const int64_t steps_;
};

}  // namespace psring

#endif  // PSRING_COMMON_COMPUTED_STEP_CONSTANTS_H_
