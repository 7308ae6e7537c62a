#include "experiments/report/page_shell.h"

#include "absl/strings/str_cat.h"
#include "experiments/report/html.h"

namespace psring {
namespace {

// What a page may do: run what it brings along, and ask nobody for anything. Vega makes
// functions of its expressions.
constexpr char kPolicy[] =
    "default-src 'none'; script-src 'unsafe-inline' 'unsafe-eval'; "
    "style-src 'unsafe-inline'; img-src data:";

}  // namespace

std::string PageCharts::Add(const std::vector<std::optional<Chart>>& charts, bool large) {
  std::string html;
  for (const std::optional<Chart>& chart : charts) {
    if (!chart) continue;
    const std::string id = absl::StrCat("chart-", specs_.size());
    specs_[id] = chart->spec;
    absl::StrAppend(&html, ChartHtml(*chart, id));
  }
  if (html.empty()) return "";
  return absl::StrCat("<div class=\"charts", large ? " large" : "", "\">\n", html,
                      "</div>\n");
}

std::string PageCharts::AddAll(const std::vector<Chart>& charts, bool large) {
  return Add(std::vector<std::optional<Chart>>(charts.begin(), charts.end()), large);
}

std::string WholePage(absl::string_view title, absl::string_view body,
                      absl::string_view made_by, const PageCharts& charts,
                      const PageAssets& assets) {
  return absl::StrCat(
      "<!DOCTYPE html>\n<html lang=\"en\">\n<head>\n<meta charset=\"utf-8\">\n",
      "<meta http-equiv=\"Content-Security-Policy\" content=\"", kPolicy, "\">\n",
      "<meta name=\"viewport\" content=\"width=device-width, initial-scale=1\">\n",
      "<title>", Escape(title), " - psring</title>\n",
      "<link rel=\"icon\" href=\"data:,\">\n<style>\n", assets.style,
      "</style>\n</head>\n<body>\n", body, "<footer>\n<p>", Escape(made_by),
      " The charts are drawn by Vega, Vega-Lite and vega-embed, whose licences this page "
      "carries.</p>\n",
      "<details><summary>licences</summary>\n", TextBlock(assets.licences),
      "</details>\n</footer>\n", "<script type=\"application/json\" id=\"charts\">",
      InScript(nlohmann::ordered_json{{"charts", charts.specs()}}),
      "</script>\n<script>\n", InScript(assets.chart_library), "</script>\n<script>\n",
      InScript(assets.script), "</script>\n</body>\n</html>\n");
}

}  // namespace psring
