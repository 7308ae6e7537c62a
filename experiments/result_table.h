// The results for people. Pure.
#ifndef PSRING_EXPERIMENTS_RESULT_TABLE_H_
#define PSRING_EXPERIMENTS_RESULT_TABLE_H_

#include <string>
#include <vector>

#include "experiments/arm_result.h"
#include "proto/experiment.pb.h"

namespace psring {

// Arms side by side, staleness, traffic by endpoint, certificates. `runs` are those of
// all arms and seeds, and not empty. Of an arm with several seeds, numbers are medians
// (parts of a step: means, so that they add up), those of interest with their range;
// traffic is that of its first seed, and a certificate fails where it fails for one.
std::string ResultTable(const Experiment& experiment, const std::vector<ArmResult>& runs);

}  // namespace psring

#endif  // PSRING_EXPERIMENTS_RESULT_TABLE_H_
