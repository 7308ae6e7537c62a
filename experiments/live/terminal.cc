#include "experiments/live/terminal.h"

#include <sys/ioctl.h>
#include <unistd.h>

#include <cstdlib>

#include "absl/strings/ascii.h"
#include "absl/strings/match.h"

namespace psring {
namespace {

// Of a terminal that does not say.
constexpr int kColumns = 80;
constexpr int kRows = 24;

}  // namespace

Terminal TerminalBy(int columns, int rows,
                    const std::function<std::string(const char*)>& variable) {
  const std::string term = variable("TERM");
  if (term.empty() || term == "dumb") return {};
  std::string locale;
  for (const char* const name : {"LC_ALL", "LC_CTYPE", "LANG"}) {
    if (locale.empty()) locale = absl::AsciiStrToLower(variable(name));
  }
  return {
      .columns = columns > 0 ? columns : kColumns,
      .rows = rows > 0 ? rows : kRows,
      .colours = variable("NO_COLOR").empty(),
      .utf8 = absl::StrContains(locale, "utf-8") || absl::StrContains(locale, "utf8")};
}

Terminal StderrTerminal() {
  if (!isatty(STDERR_FILENO)) return {};
  winsize size{};
  if (ioctl(STDERR_FILENO, TIOCGWINSZ, &size) != 0) size = {};
  return TerminalBy(size.ws_col, size.ws_row, [](const char* name) -> std::string {
    const char* const value = getenv(name);
    return value == nullptr ? "" : value;
  });
}

}  // namespace psring
