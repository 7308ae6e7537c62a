// The charts of the figures. Pure: from numbers to specifications.
#ifndef PSRING_EXPERIMENTS_FIGURES_FIGURE_CHARTS_H_
#define PSRING_EXPERIMENTS_FIGURES_FIGURE_CHARTS_H_

#include <cstdint>
#include <vector>

#include "experiments/figures/chunk_grid.h"
#include "experiments/figures/memory_shares.h"
#include "experiments/figures/step_time_line.h"
#include "experiments/figures/traffic_growth.h"
#include "experiments/report/chart.h"

namespace psring {

// Bytes of the busiest link against the number of workers, a line for each way. With one
// worker a ring sends nothing, which has no place on a logarithmic scale: it is in the
// table alone.
Chart GrowthChart(const TrafficGrowth& growth);

Chart GridChart(const ChunkGrid& grid, int ranks);

// Workers' steps as bars, the slot's updates as marks on the server's lane, and arrows
// from a launch to its update, coloured by staleness.
Chart TimeLineChart(const StepTimeLine& line);

// Bytes of a rank for each parameter, against the number of ranks; and of a model with so
// many parameters, part by part, at one number of ranks.
Chart SharingChart();
Chart SharedModelChart(int64_t parameters, int ranks);
// What psring's own workers have, with fp32.
Chart RingBudgetChart(const std::vector<BudgetBytes>& budgets);

}  // namespace psring

#endif  // PSRING_EXPERIMENTS_FIGURES_FIGURE_CHARTS_H_
