// Shows a running arm: as a picture on a terminal, as plain lines elsewhere.
#ifndef PSRING_EXPERIMENTS_LIVE_LIVE_DISPLAY_H_
#define PSRING_EXPERIMENTS_LIVE_LIVE_DISPLAY_H_

#include <optional>
#include <ostream>
#include <string>
#include <vector>

#include "absl/time/time.h"
#include "experiments/live/held_log_lines.h"
#include "experiments/live/live_state.h"
#include "experiments/live/live_view.h"

namespace psring {

// On a terminal the picture is drawn over the one before, at most five times a second,
// with the cursor hidden, and vanishes in the end; elsewhere a plain line is written
// every ten seconds. One thread.
class LiveDisplay {
 public:
  // `terminal` is asked anew for each picture, so that a terminal may change its size.
  LiveDisplay(std::ostream* out, Terminal (*terminal)());
  ~LiveDisplay();
  LiveDisplay(const LiveDisplay&) = delete;
  LiveDisplay& operator=(const LiveDisplay&) = delete;

  // `now` is on any monotonic clock, which may be another one for another arm.
  void Show(const LiveState& state, absl::Duration now);
  // Makes room for other output, which then stands above the next picture. The cursor is
  // back.
  void Clear();

 private:
  void Erase(int columns, std::string* picture);

  std::ostream* const out_;
  Terminal (*const terminal_)();
  std::optional<HeldLogLines> logged_;  // Where there is a terminal.
  // Columns of each line that stands there; the cursor is behind the last.
  std::vector<int> drawn_;
  std::string arm_;  // That `last_` is of.
  absl::Duration last_ = -absl::InfiniteDuration();
};

}  // namespace psring

#endif  // PSRING_EXPERIMENTS_LIVE_LIVE_DISPLAY_H_
