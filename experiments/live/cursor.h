// The cursor of the terminal, which is to come back however the program ends.
#ifndef PSRING_EXPERIMENTS_LIVE_CURSOR_H_
#define PSRING_EXPERIMENTS_LIVE_CURSOR_H_

namespace psring {

inline constexpr char kHideCursor[] = "\x1b[?25l";
inline constexpr char kShowCursor[] = "\x1b[?25h";

// From now on a signal that kills or stops the program (SIGQUIT, SIGTSTP, SIGABRT,
// SIGSEGV and the like; not SIGKILL) first shows the cursor on stderr, then does what it
// did before. Writes nothing itself. Signals are the program's, so this is, too.
void HideCursorUntilDeath();
// The cursor has been shown: signals write nothing any more.
void CursorIsShown();

}  // namespace psring

#endif  // PSRING_EXPERIMENTS_LIVE_CURSOR_H_
