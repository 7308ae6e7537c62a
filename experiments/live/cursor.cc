#include "experiments/live/cursor.h"

#include <signal.h>
#include <unistd.h>

#include <array>
#include <atomic>
#include <cstddef>

namespace psring {
namespace {

constexpr std::array kDeadly = {SIGQUIT, SIGABRT, SIGSEGV, SIGBUS, SIGFPE, SIGILL};

// A handler has nothing but these.
std::atomic<bool> hidden = false;
std::array<struct sigaction, kDeadly.size()> before;

void Show() {
  if (!hidden) return;
  // Whatever is left of the picture stays above.
  static constexpr char kText[] = "\x1b[?25h\r\n";
  [[maybe_unused]] const ssize_t written = write(STDERR_FILENO, kText, sizeof kText - 1);
}

void Die(int signal) {
  Show();
  for (size_t i = 0; i < kDeadly.size(); ++i) {
    if (kDeadly[i] == signal) sigaction(signal, &before[i], nullptr);
  }
  raise(signal);  // Once this has returned.
}

// The next picture hides it again.
void Stop(int /*signal*/) {
  Show();
  kill(getpid(), SIGSTOP);
}

void Install() {
  struct sigaction action = {};
  action.sa_flags = SA_RESTART;
  action.sa_handler = Die;
  for (size_t i = 0; i < kDeadly.size(); ++i) {
    sigaction(kDeadly[i], &action, &before[i]);
  }
  struct sigaction stop = {};
  // Whoever ignores it goes on doing so: a shell without job control.
  if (sigaction(SIGTSTP, nullptr, &stop) == 0 && stop.sa_handler == SIG_DFL) {
    stop.sa_flags = SA_RESTART;
    stop.sa_handler = Stop;
    sigaction(SIGTSTP, &stop, nullptr);
  }
}

}  // namespace

void HideCursorUntilDeath() {
  static const bool installed = (Install(), true);
  static_cast<void>(installed);
  hidden = true;
}

void CursorIsShown() { hidden = false; }

}  // namespace psring
