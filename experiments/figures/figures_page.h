// The page of figures that explain the subject.
#ifndef PSRING_EXPERIMENTS_FIGURES_FIGURES_PAGE_H_
#define PSRING_EXPERIMENTS_FIGURES_FIGURES_PAGE_H_

#include <string>
#include <vector>

#include "experiments/figures/chunk_grid.h"
#include "experiments/figures/memory_shares.h"
#include "experiments/figures/step_time_line.h"
#include "experiments/figures/traffic_growth.h"
#include "experiments/report/page_shell.h"

namespace psring {

// Of the large model whose memory is drawn, and of the ranks that share it.
inline constexpr int64_t kSharedParameters = 70'000'000'000;
inline constexpr int kSharingRanks = 64;

// Everything that the page shows beside that.
struct FiguresData {
  TrafficGrowth growth;
  int ranks = 0;  // Of the grids.
  std::vector<ChunkGrid> grids;
  std::vector<StepTimeLine> lines;   // Empty: no run was given.
  std::vector<BudgetBytes> budgets;  // Of kSharingRanks workers.
};

// Pure.
std::string FiguresHtml(const FiguresData& data, const PageAssets& assets);

}  // namespace psring

#endif  // PSRING_EXPERIMENTS_FIGURES_FIGURES_PAGE_H_
