// What the pages of psring have in common: one HTML file each that needs nothing else,
// and makes no request. Pure.
#ifndef PSRING_EXPERIMENTS_REPORT_PAGE_SHELL_H_
#define PSRING_EXPERIMENTS_REPORT_PAGE_SHELL_H_

#include <optional>
#include <string>
#include <vector>

#include "absl/strings/string_view.h"
#include "experiments/report/chart.h"

namespace psring {

// What a page brings along. `chart_library` is JavaScript with a function vegaEmbed.
struct PageAssets {
  absl::string_view style;
  absl::string_view script;
  absl::string_view chart_library;
  absl::string_view licences;
};

// The charts of a page, numbered as they come. Not thread-safe.
class PageCharts {
 public:
  // Places for these charts, side by side as far as there is room; `large`: below each
  // other. Empty where there is no chart among them.
  std::string Add(const std::vector<std::optional<Chart>>& charts, bool large = false);
  std::string AddAll(const std::vector<Chart>& charts, bool large = false);

  // Of all that were added, by the name of their place.
  const nlohmann::ordered_json& specs() const { return specs_; }

 private:
  nlohmann::ordered_json specs_ = nlohmann::ordered_json::object();
};

// The whole file. `title` and `made_by`, the footer's first sentence, are text; `body` is
// HTML, with the places of `charts`.
std::string WholePage(absl::string_view title, absl::string_view body,
                      absl::string_view made_by, const PageCharts& charts,
                      const PageAssets& assets);

}  // namespace psring

#endif  // PSRING_EXPERIMENTS_REPORT_PAGE_SHELL_H_
