#include "experiments/staleness_chart.h"

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <numeric>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "experiments/text.h"

namespace psring {
namespace {

constexpr int64_t kMostRanges = 8;
// Of eighths of a line's height.
constexpr const char* kBars[] = {" ", "▁", "▂", "▃", "▄", "▅", "▆", "▇", "█"};

int64_t CountOf(const Staleness& staleness) {
  return std::accumulate(staleness.histogram.begin(), staleness.histogram.end(),
                         int64_t{0});
}

// The smallest staleness that 99 percent of the contributions are not above.
int64_t Percentile99(const Staleness& staleness) {
  const int64_t count = CountOf(staleness);
  int64_t seen = 0;
  int64_t s = 0;
  for (const int64_t here : staleness.histogram) {
    seen += here;
    if (100 * seen >= 99 * count) break;
    ++s;
  }
  return s;
}

// Ranges are 0, 1 to width, width + 1 to 2 * width, ...
int64_t RangeOf(int64_t staleness, int64_t width) {
  return (staleness + width - 1) / width;
}

std::string Label(int64_t range, int64_t width, bool open) {
  const int64_t begin = range == 0 ? 0 : (range - 1) * width + 1;
  if (open) return absl::StrCat(begin, "+");
  return range == 0 || width == 1 ? absl::StrCat(begin)
                                  : absl::StrCat(begin, "-", range * width);
}

// "12 % ▁"; nothing where there are no contributions, and no bar but a low one where
// there are few.
std::string Bar(int64_t here, int64_t count) {
  if (here == 0) return "";
  const double share = static_cast<double>(here) / static_cast<double>(count);
  const int64_t height = std::max<int64_t>(1, std::llround(8 * share));
  return absl::StrFormat("%.0f %% %s", 100 * share, kBars[height]);
}

}  // namespace

std::string StalenessChart(const std::vector<ArmRuns>& arms) {
  std::vector<std::pair<std::string, Staleness>> lines;
  int64_t stalest = 0;  // All but one percent.
  int64_t max = 0;
  for (const ArmRuns& arm : arms) {
    const Staleness staleness = arm.AllStaleness();
    if (CountOf(staleness) == 0) continue;
    stalest = std::max(stalest, Percentile99(staleness));
    max = std::max(max, staleness.max);
    lines.emplace_back(arm.first().name, staleness);
  }
  if (lines.empty()) return "";

  // The narrowest that lets the stalest be in the last range.
  const int64_t width = std::max<int64_t>(1, RangeOf(stalest, kMostRanges - 1));
  const int64_t ranges = std::min(kMostRanges, RangeOf(max, width) + 1);
  std::vector<std::string> header = {"staleness of contributions"};
  for (int64_t range = 0; range < ranges; ++range) {
    const bool open = range + 1 == ranges && RangeOf(max, width) >= ranges;
    header.push_back(Label(range, width, open));
  }
  std::vector<std::vector<std::string>> rows;
  for (const auto& [name, staleness] : lines) {
    std::vector<int64_t> counts(ranges);
    for (size_t s = 0; s < staleness.histogram.size(); ++s) {
      counts[std::min(ranges - 1, RangeOf(static_cast<int64_t>(s), width))] +=
          staleness.histogram[s];
    }
    rows.push_back({name});
    for (const int64_t here : counts) {
      rows.back().push_back(Bar(here, CountOf(staleness)));
    }
  }
  return FormatTable(header, rows);
}

}  // namespace psring
