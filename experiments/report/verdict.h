// What a comparison comes down to, in sentences. Pure: every number comes from results.
#ifndef PSRING_EXPERIMENTS_REPORT_VERDICT_H_
#define PSRING_EXPERIMENTS_REPORT_VERDICT_H_

#include <string>
#include <vector>

#include "experiments/arm_runs.h"
#include "experiments/report/contest.h"
#include "experiments/report/run_results.h"

namespace psring {

enum class Trust {
  kYes,
  kWithCare,  // The numbers are what they are, and something is to be known of them.
  kNo,        // A check failed, or there is nothing to believe.
};
// "yes", "with care", "no".
const char* ToString(Trust trust);

struct ReportVerdict {
  std::string winner;            // One sentence: who, by how much, on which measure.
  std::vector<std::string> why;  // Sentences: what made the difference.
  Trust trust = Trust::kYes;
  std::vector<std::string> reasons;  // Sentences, the gravest first; never empty.
};

// `arms` are those of run.ended, `contest` is theirs.
ReportVerdict VerdictOf(const RunResults& run, const std::vector<ArmRuns>& arms,
                        const Contest& contest);

}  // namespace psring

#endif  // PSRING_EXPERIMENTS_REPORT_VERDICT_H_
