// Learning-rate schedules and bias corrections as numbers. Pure.
#ifndef PSRING_COMMON_SCHEDULE_H_
#define PSRING_COMMON_SCHEDULE_H_

#include <cstdint>

#include "common/step_constants.h"
#include "proto/experiment.pb.h"

namespace psring {

// The optimizer's own learning rate, which the schedule multiplies.
float BaseLearningRate(const Optimizer& settings);

// The constants of step `step` >= 0 in a run of `steps` steps, by the formulas in
// proto/experiment.proto, defined beyond the end of the run too. Computed in double and
// rounded to float once. Powers and cosines differ in the last bit between math
// libraries, so a job has one process compute them and send them to the others.
//
// Sources: Goyal et al., 2017 (warm-up); Loshchilov and Hutter, 2017 (cosine).
StepConstants StepConstantsAt(const Optimizer& settings, int64_t steps, int64_t step);

}  // namespace psring

#endif  // PSRING_COMMON_SCHEDULE_H_
