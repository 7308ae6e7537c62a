// How training went, against steps, seconds and bytes.
#ifndef PSRING_EXPERIMENTS_REPORT_CURVES_H_
#define PSRING_EXPERIMENTS_REPORT_CURVES_H_

#include <cstdint>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "experiments/arm_result.h"
#include "experiments/arm_runs.h"
#include "experiments/report/run_results.h"
#include "experiments/sqlite.h"

namespace psring {

// Over an arm's seeds: of the x values medians, of y the median and the range.
struct CurvePoint {
  int64_t step = 0;  // Number of steps that had been made.
  double seconds = 0;
  double bytes = 0;
  Spread y = {};
};

struct Curve {
  std::string arm;
  std::vector<CurvePoint> points;
};

// Of one run: about 100 stretches of equally many steps of all its workers, in the order
// in which they ended; where workers do not keep step, as many of one worker's may stand
// beside fewer of another's. Of a stretch, the mean of the training loss, the end of its
// last step, and the payload that all had sent by then (as in EvaluationPoint). Where a
// loss was not finite, the stretch has none.
struct LossPoint {
  // Of all workers until then, divided by their number; those before the checkpoint that
  // the run continued from count.
  int64_t step = 0;
  double seconds = 0;
  double bytes = 0;
  double loss = 0;
};
absl::StatusOr<std::vector<LossPoint>> ReadLosses(SqliteConnection& database,
                                                  const ArmResult& run);

// Training loss of each arm, unfinished ones too; none of arms that learn nothing.
absl::StatusOr<std::vector<Curve>> ReadLossCurves(SqliteConnection& database,
                                                  const RunResults& run);

// Test accuracy of each arm, from the evaluations of its runs. Arms with fewer than two
// are no curves. Pure.
std::vector<Curve> AccuracyCurves(const std::vector<ArmRuns>& arms);

}  // namespace psring

#endif  // PSRING_EXPERIMENTS_REPORT_CURVES_H_
