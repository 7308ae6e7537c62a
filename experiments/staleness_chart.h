// How stale the applied contributions of each arm were, as a chart of text. Pure.
#ifndef PSRING_EXPERIMENTS_STALENESS_CHART_H_
#define PSRING_EXPERIMENTS_STALENESS_CHART_H_

#include <string>
#include <vector>

#include "experiments/arm_runs.h"

namespace psring {

// A line for each arm with servers, under a header with at most eight ranges of
// staleness, the same for all arms: shares of the arm's applied contributions in percent,
// each with a bar of its height. The first range is 0 alone; the others have one width,
// wide enough for 99 percent of the stalest arm, and the last one is open. Empty where no
// arm has contributions.
std::string StalenessChart(const std::vector<ArmRuns>& arms);

}  // namespace psring

#endif  // PSRING_EXPERIMENTS_STALENESS_CHART_H_
