// Learning-rate schedules and bias corrections as numbers. Pure.
#ifndef PSRING_COMMON_SCHEDULE_H_
#define PSRING_COMMON_SCHEDULE_H_

#include <cstdint>

#include "common/step_constants.h"
#include "proto/experiment.pb.h"

namespace psring {

// The optimizer's own learning rate, which the schedule multiplies.
float BaseLearningRate(const Optimizer& settings);

// The constants of the update that `updates` >= 0 others have come before, at `position`
// >= 0 in a run of `steps` steps: the step where an update is everybody's mean, a
// fraction of one where it is less. By the formulas in proto/experiment.proto, whose s is
// the position, but for Adam's, which is the number of updates; defined beyond the end of
// the run too. Computed in double and rounded to float once. Powers and cosines differ in
// the last bit between math libraries, so a job has one process compute them and send
// them to the others.
//
// Sources: Goyal et al., 2017 (warm-up); Loshchilov and Hutter, 2017 (cosine).
StepConstants StepConstantsAt(const Optimizer& settings, int64_t steps, double position,
                              int64_t updates);
// Where an update is everybody's mean, and so a step.
inline StepConstants StepConstantsAt(const Optimizer& settings, int64_t steps,
                                     int64_t step) {
  return StepConstantsAt(settings, steps, static_cast<double>(step), step);
}

}  // namespace psring

#endif  // PSRING_COMMON_SCHEDULE_H_
