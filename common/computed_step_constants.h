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

// Of a run of `steps` steps of `workers` workers, whose updates are made of so many
// contributions each; where these are left out, each update is a step. Never blocks.
class ComputedStepConstants final : public StepConstantsSource {
 public:
  ComputedStepConstants(Optimizer settings, int64_t steps, int64_t workers = 1,
                        int64_t contributions_per_update = 1)
      : settings_(std::move(settings)),
        steps_(steps),
        workers_(workers),
        contributions_per_update_(contributions_per_update),
        updates_(contributions_per_update == workers ? steps : steps * workers) {}

  absl::StatusOr<StepConstants> At(int64_t update) override {
    if (update < 0 || update >= updates_) {
      return absl::OutOfRangeError(
          absl::StrCat("update ", update, " of a run of ", updates_, " updates"));
    }
    const double position = static_cast<double>(update * contributions_per_update_) /
                            static_cast<double>(workers_);
    return StepConstantsAt(settings_, steps_, position, update);
  }

 private:
  const Optimizer settings_;
  const int64_t steps_;
  const int64_t workers_;
  const int64_t contributions_per_update_;
  const int64_t updates_;  // The most that there can be.
};

}  // namespace psring

#endif  // PSRING_COMMON_COMPUTED_STEP_CONSTANTS_H_
