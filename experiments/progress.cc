#include "experiments/progress.h"

#include <sys/ioctl.h>
#include <unistd.h>

#include <algorithm>

#include "absl/strings/str_format.h"
#include "experiments/text.h"

namespace psring {
namespace {

constexpr absl::Duration kPlainInterval = absl::Seconds(10);
constexpr int kDefaultColumns = 80;

}  // namespace

std::string ProgressLine(const std::string& arm, int64_t steps,
                         const ArmProgress& progress) {
  if (progress.steps_done == 0) return absl::StrFormat("%s: starting", arm);
  const double seconds = absl::ToDoubleSeconds(progress.trained);
  const double left = seconds * static_cast<double>(steps - progress.steps_done) /
                      static_cast<double>(progress.steps_done);
  return absl::StrFormat(
      "%s: step %s of %s, loss %.4f, %s samples/s, %d:%02d left", arm,
      WithThousands(progress.steps_done), WithThousands(steps), progress.loss,
      WithThousands(seconds > 0 ? static_cast<int64_t>(
                                      static_cast<double>(progress.samples) / seconds)
                                : 0),
      static_cast<int>(left) / 60, static_cast<int>(left) % 60);
}

ProgressDisplay::ProgressDisplay(std::ostream* out, int (*columns)())
    : out_(out), columns_(columns) {}

void ProgressDisplay::Show(const std::string& arm, int64_t steps,
                           const ArmProgress& progress, absl::Duration now) {
  std::string line = ProgressLine(arm, steps, progress);
  const int columns = columns_();
  if (columns > 0) {
    // A line that wraps could not be rewritten.
    line.resize(std::min(line.size(), static_cast<size_t>(columns - 1)));
    *out_ << "\r\x1b[K" << line << std::flush;
    shown_ = true;
  } else if (progress.steps_done > 0 && now - last_plain_ >= kPlainInterval) {
    *out_ << line << std::endl;
    last_plain_ = now;
  }
}

void ProgressDisplay::Clear() {
  if (shown_) *out_ << "\r\x1b[K" << std::flush;
  shown_ = false;
}

int StderrColumns() {
  if (!isatty(STDERR_FILENO)) return 0;
  winsize size{};
  if (ioctl(STDERR_FILENO, TIOCGWINSZ, &size) != 0 || size.ws_col == 0) {
    return kDefaultColumns;
  }
  return size.ws_col;
}

}  // namespace psring
