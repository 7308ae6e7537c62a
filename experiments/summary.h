// summary.json: the results for scripts. experiments/README.md documents its fields.
#ifndef PSRING_EXPERIMENTS_SUMMARY_H_
#define PSRING_EXPERIMENTS_SUMMARY_H_

#include <string>
#include <vector>

#include "absl/status/status.h"
#include "experiments/arm_result.h"
#include "proto/experiment.pb.h"

namespace psring {

// JSON text. `runs` are those of all arms and seeds; `outcome` is what ended the
// comparison early, or OK.
std::string SummaryJson(const Experiment& experiment, const std::vector<ArmResult>& runs,
                        const absl::Status& outcome);

}  // namespace psring

#endif  // PSRING_EXPERIMENTS_SUMMARY_H_
