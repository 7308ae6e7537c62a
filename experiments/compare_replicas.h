// Whether arms that must end in the same bits did. Pure.
#ifndef PSRING_EXPERIMENTS_COMPARE_REPLICAS_H_
#define PSRING_EXPERIMENTS_COMPARE_REPLICAS_H_

#include <vector>

#include "experiments/arm_result.h"
#include "proto/coordinator.pb.h"

namespace psring {

// Runs that must end in the same bits are compared with the first such run at every step
// that both checked, and their replica certificates say so. They have the same number of
// workers, the same training (seed and optimizer included) and, through one experiment,
// the same buckets; and they sum every bucket by RING, or on servers in lockstep in ring
// order, or in any order where compute is emulated. With two workers every order is the
// same. All this with fp32 on the wire: what is rounded on its way is rounded elsewhere
// in each architecture, so that equality does not apply. A run whose own ranks differ is
// compared with none, but where they have no majority its certificate says which of them
// a run has that must be equal. `specs` are those of the runs, and may be more.
void CompareReplicas(const std::vector<JobSpec>& specs, std::vector<ArmResult>* runs);

}  // namespace psring

#endif  // PSRING_EXPERIMENTS_COMPARE_REPLICAS_H_
