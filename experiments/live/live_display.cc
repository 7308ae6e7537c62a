#include "experiments/live/live_display.h"

#include <algorithm>

#include "absl/strings/str_cat.h"
#include "experiments/live/cursor.h"
#include "experiments/progress.h"

namespace psring {
namespace {

constexpr absl::Duration kPlainInterval = absl::Seconds(10);
// A tick of the loop that shows is as long, and may come a little early.
constexpr absl::Duration kDrawInterval = absl::Milliseconds(190);

}  // namespace

LiveDisplay::LiveDisplay(std::ostream* out, Terminal (*terminal)())
    : out_(out), terminal_(terminal) {
  if (terminal_().columns > 0) logged_.emplace();
}

LiveDisplay::~LiveDisplay() {
  Clear();
  if (logged_) *out_ << logged_->Take() << std::flush;
}

// A terminal that has become narrower has broken each line into as many rows as it now
// takes.
void LiveDisplay::Erase(int columns, std::string* picture) {
  if (drawn_.empty()) return;
  int up = -1;
  for (const int line : drawn_) up += std::max(1, (line + columns - 1) / columns);
  absl::StrAppend(picture, "\r");
  if (up > 0) absl::StrAppend(picture, "\x1b[", up, "A");
  absl::StrAppend(picture, "\x1b[J");
  drawn_.clear();
}

void LiveDisplay::Show(const LiveState& state, absl::Duration now) {
  if (state.arm != arm_) {
    arm_ = state.arm;
    last_ = -absl::InfiniteDuration();
  }
  const Terminal terminal = terminal_();
  if (terminal.columns == 0) {
    if (state.progress.steps_done == 0 || now - last_ < kPlainInterval) return;
    *out_ << ProgressLine(state.arm, state.steps, state.progress) << std::endl;
    last_ = now;
    return;
  }
  if (now - last_ < kDrawInterval && !drawn_.empty()) return;
  last_ = now;
  HideCursorUntilDeath();
  // In one piece, so that nothing half drawn is seen.
  std::string picture = kHideCursor;
  Erase(terminal.columns, &picture);
  if (logged_) absl::StrAppend(&picture, logged_->Take());
  for (const std::string& line : LiveView(state, terminal)) {
    absl::StrAppend(&picture, drawn_.empty() ? "" : "\r\n", line);
    drawn_.push_back(ColumnsOf(line));
  }
  *out_ << picture << std::flush;
}

void LiveDisplay::Clear() {
  if (drawn_.empty()) return;
  std::string picture;
  Erase(std::max(1, terminal_().columns), &picture);
  if (logged_) absl::StrAppend(&picture, logged_->Take());
  *out_ << picture << kShowCursor << std::flush;
  CursorIsShown();
}

}  // namespace psring
