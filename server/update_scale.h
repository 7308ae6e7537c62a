// How large the step of one update is. Pure.
#ifndef PSRING_SERVER_UPDATE_SCALE_H_
#define PSRING_SERVER_UPDATE_SCALE_H_

#include <cstdint>

#include "common/step_constants.h"
#include "proto/experiment.pb.h"
#include "server/consistency_policy.h"

namespace psring {

// Of an update made of `contributions` of `workers` workers. Where each push is an
// update, StaleUpdates says how it counts, `staleness` is its own. Rounds apply a mean;
// where their size is not fixed (at the end of a run there are not always enough left to
// fill one), it counts as much as there is of it.
StepConstants ScaledForUpdate(const ConsistencyPromise& promise,
                              const StaleUpdates& settings, int workers,
                              int contributions, int64_t staleness,
                              StepConstants constants);

}  // namespace psring

#endif  // PSRING_SERVER_UPDATE_SCALE_H_
