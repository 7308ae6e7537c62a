// A stretch of a recorded run with servers: the steps of all workers, and the updates
// that their gradients became.
#ifndef PSRING_EXPERIMENTS_FIGURES_STEP_TIME_LINE_H_
#define PSRING_EXPERIMENTS_FIGURES_STEP_TIME_LINE_H_

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "experiments/sqlite.h"
#include "experiments/trace/traced_run.h"

namespace psring {

// Times are milliseconds since the stretch began, from 0 to its length: what began before
// or ends after it is cut there.
struct StepBar {
  int rank = 0;
  int64_t step = 0;
  double begin = 0;
  double computed = 0;  // Until then it computed, and then waited for parameters.
  double end = 0;
};

// A gradient of a worker for one slot, that was applied in the stretch.
struct AppliedGradient {
  int rank = 0;
  int64_t step = 0;
  std::optional<double> launched;  // None: before the stretch, or not known.
  double applied = 0;
  int64_t staleness = 0;  // Updates of the slot that the gradient did not know of.
};

struct StepTimeLine {
  std::string title;  // "async"
  std::string mode;
  bool lockstep = false;
  int workers = 0;
  int server = 0;  // That has the slot.
  double length_ms = 0;
  double error_ms = 0;  // Clocks are aligned as well as that.
  std::vector<StepBar> bars;
  std::vector<AppliedGradient> applied;  // In order of time.
  // Why it is not known when gradients were launched; empty: it is.
  std::string unknown;

  int64_t stale() const;  // So many of `applied`.
  int64_t most_stale() const;
};

// Of the run in its middle: three steps of the worker whose steps take longest, or as
// many as there are, and slot 0. The run has servers and steps.
absl::StatusOr<StepTimeLine> ReadStepTimeLine(SqliteConnection& connection,
                                              const TracedRun& run);

// The runs of a database that tell most: the first in which workers keep step, and of the
// others the one whose applied gradients were stalest. Either may be missing. NotFound:
// both are, as no run with servers has steps.
struct TellingRuns {
  std::optional<TracedRun> in_step;
  std::optional<TracedRun> free;
};
absl::StatusOr<TellingRuns> FindTellingRuns(SqliteConnection& connection);

}  // namespace psring

#endif  // PSRING_EXPERIMENTS_FIGURES_STEP_TIME_LINE_H_
