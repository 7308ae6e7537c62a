// summary.json: the results for scripts. experiments/README.md documents its fields.
#ifndef PSRING_EXPERIMENTS_SUMMARY_H_
#define PSRING_EXPERIMENTS_SUMMARY_H_

#include <string>
#include <vector>

#include "absl/status/status.h"
#include "experiments/arm_result.h"
#include "experiments/expectations.h"
#include "experiments/probe/probed_link.h"
#include "proto/experiment.pb.h"

namespace psring {

// JSON text. `probed` are the links that were probed before; `runs` are those of all arms
// and seeds; `outcome` is what ended the comparison early, or OK.
std::string SummaryJson(const Experiment& experiment,
                        const std::vector<ProbedLink>& probed,
                        const std::vector<ArmResult>& runs,
                        const std::vector<ExpectationResult>& expectations,
                        const absl::Status& outcome);

}  // namespace psring

#endif  // PSRING_EXPERIMENTS_SUMMARY_H_
