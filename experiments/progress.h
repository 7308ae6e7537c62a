// What a person sees while an arm runs.
#ifndef PSRING_EXPERIMENTS_PROGRESS_H_
#define PSRING_EXPERIMENTS_PROGRESS_H_

#include <cstdint>
#include <ostream>
#include <string>

#include "absl/time/time.h"

namespace psring {

// How far an arm is.
struct ArmProgress {
  int64_t steps_done = 0;  // Of all ranks together, divided by their number.
  int64_t samples = 0;     // Over all ranks.
  double loss = 0;         // Mean over ranks of their last step.
  absl::Duration trained = absl::ZeroDuration();  // Since step 0 began.
};

// One line about the progress of an arm. Pure.
std::string ProgressLine(const std::string& arm, int64_t steps,
                         const ArmProgress& progress);

// Shows progress on `out`: on a terminal one line that is rewritten and vanishes,
// elsewhere a plain line every ten seconds. One thread.
class ProgressDisplay {
 public:
  // `columns`: the terminal's width, asked anew for each line; 0: not a terminal.
  ProgressDisplay(std::ostream* out, int (*columns)());
  ~ProgressDisplay() { Clear(); }

  // `now` is on any monotonic clock.
  void Show(const std::string& arm, int64_t steps, const ArmProgress& progress,
            absl::Duration now);
  // Makes room for other output.
  void Clear();

 private:
  std::ostream* const out_;
  int (*const columns_)();
  bool shown_ = false;
  absl::Duration last_plain_ = -absl::InfiniteDuration();
};

// Of stderr; 0 where it is not a terminal.
int StderrColumns();

}  // namespace psring

#endif  // PSRING_EXPERIMENTS_PROGRESS_H_
