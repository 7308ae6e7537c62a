// What became of the gradients of a parameter-server arm. Pure.
#ifndef PSRING_EXPERIMENTS_CONTRIBUTIONS_H_
#define PSRING_EXPERIMENTS_CONTRIBUTIONS_H_

#include <cstdint>
#include <vector>

#include "experiments/arm_records.h"

namespace psring {

// Of applied contributions, each slot's by itself: the version that a gradient was
// applied onto minus the version that it was computed from.
struct Staleness {
  double mean = 0;
  int64_t max = 0;
  std::vector<int64_t> histogram;  // How many have staleness 0, 1, 2, ...
};

// In whole gradients: contributions to slots, divided by the number of slots.
struct WorkerContributions {
  double made = 0;
  double applied = 0;
  double late = 0;   // Dropped: the round had closed.
  double stale = 0;  // Dropped: too stale.
  double staleness_mean = 0;
  int64_t staleness_max = 0;
};

struct ContributionSummary {
  Staleness staleness;
  // How many steps ahead of the slowest worker one was, at most, when it was given
  // parameters.
  int64_t clock_lag_max = 0;
  double late = 0;
  double stale = 0;
  std::vector<WorkerContributions> workers;  // By rank.
};

// All zero and empty for an arm without servers. `records` are of an arm with `workers`
// workers and `slots` slots.
ContributionSummary SummarizeContributions(const ArmRecords& records, int workers,
                                           int64_t slots);

// Adds the contributions of another run, whose histogram may be longer or shorter.
void Add(const Staleness& more, Staleness* sum);

}  // namespace psring

#endif  // PSRING_EXPERIMENTS_CONTRIBUTIONS_H_
