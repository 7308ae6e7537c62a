// The runs of an arm with different seeds, taken together. Pure.
#ifndef PSRING_EXPERIMENTS_ARM_RUNS_H_
#define PSRING_EXPERIMENTS_ARM_RUNS_H_

#include <map>
#include <utility>
#include <vector>

#include "experiments/arm_result.h"

namespace psring {

// Of a number that each run has. The median of an even number of runs is the mean of the
// two in the middle.
struct Spread {
  double median = 0;
  double min = 0;
  double max = 0;
};

// The runs of one arm; not empty.
struct ArmRuns {
  std::vector<ArmResult> runs;

  const ArmResult& first() const { return runs.front(); }

  // `value` of each run. Infinity is the worst there is: a loss that is not finite, a
  // time to a target that is never reached. Runs whose value is not a number have none;
  // the spread is not a number where none has one.
  template <typename Value>
  Spread Over(Value value) const {
    std::vector<double> values;
    for (const ArmResult& run : runs) values.push_back(value(run));
    return SpreadOf(std::move(values));
  }
  Spread SamplesPerSecond() const;
  Spread FinalLoss() const;  // Runs that learn nothing have none.
  // Of the last evaluation. Runs without one have none.
  Spread Accuracy() const;
  Spread TimeToTargetSeconds() const;

  std::map<Convergence, int> Verdicts() const;  // Numbers of runs.
  int VoidRuns() const;
  // Of the first run that is void; null where none is.
  const Validity* Void() const;
  Staleness AllStaleness() const;

  static Spread SpreadOf(std::vector<double> values);
};

// Arms in the order of their first runs.
std::vector<ArmRuns> GroupByArm(const std::vector<ArmResult>& runs);

}  // namespace psring

#endif  // PSRING_EXPERIMENTS_ARM_RUNS_H_
