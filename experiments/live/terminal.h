// What the terminal can do that the program runs in.
#ifndef PSRING_EXPERIMENTS_LIVE_TERMINAL_H_
#define PSRING_EXPERIMENTS_LIVE_TERMINAL_H_

#include <functional>
#include <string>

#include "experiments/live/live_view.h"

namespace psring {

// Of a terminal of this size, from the environment: `variable` gives a variable's value,
// and nothing where it is not set. A TERM that is dumb, or none, cannot be drawn on. No
// colours with NO_COLOR (no-color.org). UTF-8 as LC_ALL, LC_CTYPE or LANG says, the first
// that is set.
Terminal TerminalBy(int columns, int rows,
                    const std::function<std::string(const char*)>& variable);

// The one that stderr is.
Terminal StderrTerminal();

}  // namespace psring

#endif  // PSRING_EXPERIMENTS_LIVE_TERMINAL_H_
