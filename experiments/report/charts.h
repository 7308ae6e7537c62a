// The charts of the page, a function for each. Pure: from results to specifications.
//
// `arms` are the names of all arms of the page, in order, which have colours by that. A
// chart that would be empty is none.
#ifndef PSRING_EXPERIMENTS_REPORT_CHARTS_H_
#define PSRING_EXPERIMENTS_REPORT_CHARTS_H_

#include <optional>
#include <string>
#include <vector>

#include "experiments/arm_runs.h"
#include "experiments/report/chart.h"
#include "experiments/report/curves.h"
#include "experiments/report/exchange_line.h"
#include "experiments/report/traffic_picture.h"

namespace psring {

using ArmNames = std::vector<std::string>;

// What each part of a step took, and why communication was exposed; mean milliseconds.
std::optional<Chart> StepPartsChart(const std::vector<ArmRuns>& arms);
std::optional<Chart> ExposedCausesChart(const std::vector<ArmRuns>& arms);

// Three: against steps, seconds and bytes. `what` is "training loss" or "test accuracy";
// `percent` shows shares as percent.
std::vector<Chart> CurveCharts(const std::string& what, bool percent,
                               const std::vector<Curve>& curves, const ArmNames& arms);

// Of an arm in which some contribution was stale.
std::optional<Chart> StalenessHistogram(const ArmRuns& arm, const ArmNames& arms);
// Whether every worker made as many contributions, and none was dropped.
bool ContributeAlike(const ArmRuns& arm);
// Of the other arms with servers: what each worker made, and what became of it.
std::optional<Chart> ContributionsChart(const std::vector<ArmRuns>& arms);

// Payload of each process, counted beside the formula's.
std::optional<Chart> PayloadChart(const std::vector<ArmRuns>& arms);

// Links are as wide as `most_bytes` a step, the most of all pictures, has it.
Chart TrafficChart(const TrafficPicture& picture, double most_bytes);

std::optional<Chart> ExchangeChart(const ExchangeLine& line);

}  // namespace psring

#endif  // PSRING_EXPERIMENTS_REPORT_CHARTS_H_
