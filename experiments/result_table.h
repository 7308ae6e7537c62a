// The results for people. Pure.
#ifndef PSRING_EXPERIMENTS_RESULT_TABLE_H_
#define PSRING_EXPERIMENTS_RESULT_TABLE_H_

#include <string>
#include <vector>

#include "experiments/arm_result.h"
#include "proto/experiment.pb.h"

namespace psring {

// Arms side by side, traffic by endpoint, certificates. `arms` is not empty.
std::string ResultTable(const Experiment& experiment, const std::vector<ArmResult>& arms);

}  // namespace psring

#endif  // PSRING_EXPERIMENTS_RESULT_TABLE_H_
