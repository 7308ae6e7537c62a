// Which arms of a comparison can be held against each other, and who is ahead. Pure.
#ifndef PSRING_EXPERIMENTS_REPORT_CONTEST_H_
#define PSRING_EXPERIMENTS_REPORT_CONTEST_H_

#include <string>
#include <vector>

#include "experiments/arm_runs.h"

namespace psring {

// kRing is that of all arms with `ring`, whatever the algorithm that sums its buckets.
enum class Architecture { kServers, kRing, kLocal };
Architecture ArchitectureOf(const ArmResult& arm);

// What decides.
enum class Measure {
  kTimeToTarget,  // Seconds until the target accuracy: less is better.
  kThroughput,    // Samples per second that were applied: more is better.
};

// Arms of as many workers. Of all numbers of workers it is the one that both
// architectures have arms of that count, and of those the largest; where no number has
// both, the one with the most arms.
struct Contest {
  int workers = 0;
  Measure measure = Measure::kThroughput;
  // Those that count, the best first: neither void nor diverged in any of their runs.
  std::vector<const ArmRuns*> arms = {};
  // Those that do not.
  std::vector<const ArmRuns*> left_out = {};

  // The best of another architecture than the first; null: there is none.
  const ArmRuns* best_other() const;
};

// The arms must outlive it. `target` is the accuracy to reach, 0: none. It is the measure
// where an arm that counts reaches it in more than half of its runs.
Contest ContestOf(const std::vector<ArmRuns>& arms, double target);

// By how many times `arm` is better than `other` (below 1: worse) in the measure, by
// medians; infinity: the other never reaches the target.
double Lead(Measure measure, const ArmRuns& arm, const ArmRuns& other);

// Whether two arms are too close to call: within 5 %, or their ranges over seeds overlap.
bool TooClose(Measure measure, const ArmRuns& arm, const ArmRuns& other);

// "2.56 s", "27,483 samples/s", "never".
std::string ValueText(Measure measure, const ArmRuns& arm);

}  // namespace psring

#endif  // PSRING_EXPERIMENTS_REPORT_CONTEST_H_
