// How far an arm is, and that in one line.
#ifndef PSRING_EXPERIMENTS_PROGRESS_H_
#define PSRING_EXPERIMENTS_PROGRESS_H_

#include <cstdint>
#include <optional>
#include <string>

#include "absl/time/time.h"

namespace psring {

// How far an arm is.
struct ArmProgress {
  int64_t steps_done = 0;  // Of all ranks together, divided by their number.
  int64_t samples = 0;     // Over all ranks.
  // Mean over ranks of their last step; none where the arm has no loss.
  std::optional<double> loss = std::nullopt;
  absl::Duration trained = absl::ZeroDuration();  // Since the first step began.
  int64_t first_step = 0;  // Those before were made before this run.
};

// Over all ranks, so far.
int64_t SamplesPerSecond(const ArmProgress& progress);
// Where the rest takes as long as what was made; not before the first step.
double SecondsLeft(int64_t steps, const ArmProgress& progress);

// One line about the progress of an arm. Pure.
std::string ProgressLine(const std::string& arm, int64_t steps,
                         const ArmProgress& progress);

}  // namespace psring

#endif  // PSRING_EXPERIMENTS_PROGRESS_H_
