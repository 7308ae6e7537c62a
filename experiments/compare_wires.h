// What sending gradients in fewer bits has cost a comparison's arms. Pure.
#ifndef PSRING_EXPERIMENTS_COMPARE_WIRES_H_
#define PSRING_EXPERIMENTS_COMPARE_WIRES_H_

#include <vector>

#include "experiments/arm_result.h"
#include "proto/coordinator.pb.h"

namespace psring {

// Each run whose wire is not fp32 is compared with the first one that differs from it in
// nothing but name and wire, and has fp32: WireUse says with which, and how far their
// final losses are apart. Only runs that came to their end and learn.
// `specs` are those of the runs, and may be more.
void CompareWires(const std::vector<JobSpec>& specs, std::vector<ArmResult>* runs);

}  // namespace psring

#endif  // PSRING_EXPERIMENTS_COMPARE_WIRES_H_
