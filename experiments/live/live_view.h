// The picture of a running arm, for a terminal.
#ifndef PSRING_EXPERIMENTS_LIVE_LIVE_VIEW_H_
#define PSRING_EXPERIMENTS_LIVE_LIVE_VIEW_H_

#include <string>
#include <vector>

#include "absl/strings/string_view.h"
#include "experiments/live/live_state.h"

namespace psring {

// What a terminal can show.
struct Terminal {
  int columns = 0;  // 0: it is none, or can do nothing but print.
  int rows = 0;
  bool colours = false;
  bool utf8 = false;  // Else ASCII.
};

// At least one line, none wider than `terminal.columns` - 1 and not more than
// `terminal.rows` - 1 of them (but one): what wraps or scrolls could not be drawn over.
// Where not all links have room, those that carry most do. Pure.
std::vector<std::string> LiveView(const LiveState& state, const Terminal& terminal);

// How many columns a line takes: escape sequences none, a character of UTF-8 one.
int ColumnsOf(absl::string_view line);

}  // namespace psring

#endif  // PSRING_EXPERIMENTS_LIVE_LIVE_VIEW_H_
