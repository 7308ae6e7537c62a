// Charts of formulas: lines against the number of workers, and bars.
#include <algorithm>
#include <string>
#include <utility>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "experiments/figures/figure_charts.h"

namespace psring {
namespace {

using Json = nlohmann::ordered_json;
using Columns = std::vector<std::pair<std::string, std::string>>;

constexpr int kMostSharingRanks = 512;

// In more columns names are wider than a phone, or half a sheet of paper.
Json NarrowLegend() { return {{"columns", 2}}; }

// Powers of two, as a number of workers mostly is one.
Json DoublingAxis(const std::string& field, const std::string& title, int last) {
  Json values = Json::array();
  for (int value = 1; value <= last; value *= 2) values.push_back(value);
  const size_t ticks = 2 * values.size();  // Of fewer, labels would be left out.
  Json axis = Quantity(field, title);
  axis["scale"] = {{"type", "log"}, {"base", 2}, {"domain", {1, last}}};
  axis["axis"] = {{"values", std::move(values)},
                  {"format", "d"},
                  {"tickCount", ticks},
                  {"labelOverlap", false}};
  return axis;
}

// Lines of the rows, named by "arm", dashed where they may lie on another one.
Json Lines(const Json& x, const Json& y, const std::vector<std::string>& names,
           const std::vector<std::string>& dashed, const Columns& columns) {
  Json dashes = Json::array();
  for (const std::string& name : names) {
    const bool is_dashed = std::find(dashed.begin(), dashed.end(), name) != dashed.end();
    dashes.push_back(is_dashed ? Json{4, 6} : Json{1, 0});
  }
  Json line = {{"data", {{"name", "rows"}}},
               {"mark", {{"type", "line"}, {"strokeWidth", 2.5}}}};
  line["encoding"] = {{"x", x},
                      {"y", y},
                      {"color", ArmColour("arm", names)},
                      {"strokeDash",
                       {{"field", "arm"},
                        {"type", "nominal"},
                        {"title", nullptr},
                        {"scale", {{"domain", names}, {"range", dashes}}}}},
                      {"tooltip", Tooltip(columns)}};
  for (const char* const channel : {"color", "strokeDash"}) {  // They share a legend.
    line["encoding"][channel]["legend"] = NarrowLegend();
  }
  return line;
}

// A bar for each name of `field`, of rows that follow each other in it.
Chart StackedChart(const std::string& title, const std::string& field, const Json& x,
                   Json rows, int bars, const Columns& columns, const Columns& colours) {
  Chart chart = {.title = title,
                 .note = "",
                 .spec = EmptySpec(title, 30 + 30 * bars),
                 .columns = columns,
                 .rows = std::move(rows)};
  chart.spec["datasets"] = {{"rows", chart.rows}};
  chart.spec["data"] = {{"name", "rows"}};
  chart.spec["mark"] = {{"type", "bar"}};
  chart.spec["encoding"] = {{"y", Name(field)},
                            {"x", x},
                            {"x2", {{"field", "end"}}},
                            {"color", NamedColour("part", "", colours)},
                            {"tooltip", Tooltip(columns)}};
  chart.spec["encoding"]["color"]["legend"] = NarrowLegend();
  return chart;
}

}  // namespace

Chart GrowthChart(const TrafficGrowth& growth) {
  Chart chart = {
      .title = "Payload of the busiest link in a step, busier direction",
      .note =
          "Both scales are logarithmic. A ring, and servers that share the workers' "
          "hosts, load their busiest link alike.",
      .spec = {},
      .columns = {{"arm", "who exchanges"},
                  {"workers", "workers N"},
                  {"megabytes", "MB per step"},
                  {"models", "in model sizes M"}},
      .rows = Json::array()};
  std::vector<std::string> names;
  Json drawn = Json::array();
  double least = static_cast<double>(growth.model_bytes) * 1e-6;
  double most = least;
  for (const TrafficPoint& point : growth.points) {
    const std::string name = ToString(point.way);
    if (names.empty() || names.back() != name) names.push_back(name);
    const auto bytes = static_cast<double>(point.bytes);
    const Json row = {{"arm", name},
                      {"workers", point.workers},
                      {"megabytes", bytes * 1e-6},
                      {"models", bytes / static_cast<double>(growth.model_bytes)}};
    chart.rows.push_back(row);
    if (point.bytes == 0) continue;
    drawn.push_back(row);
    least = std::min(least, bytes * 1e-6);
    most = std::max(most, bytes * 1e-6);
  }
  chart.spec = EmptySpec(chart.title, 320);
  const double limit = 2 * static_cast<double>(growth.model_bytes);
  chart.spec["datasets"] = {
      {"rows", drawn},
      {"limit", {{{"megabytes", limit * 1e-6}, {"workers", 1}, {"text", "2 M"}}}}};
  const Json x = DoublingAxis("workers", "workers N", kMostFigureWorkers);
  Json y = Quantity("megabytes", "MB per step");
  y["scale"] = {{"type", "log"}, {"nice", false}, {"domain", {0.8 * least, 1.25 * most}}};
  y["axis"] = {{"format", ","}, {"tickCount", 4}};
  Json rule = {
      {"data", {{"name", "limit"}}},
      {"mark", {{"type", "rule"}, {"color", "var(--soft)"}, {"strokeDash", {6, 4}}}}};
  rule["encoding"] = {{"y", y}};
  Json text = {{"data", {{"name", "limit"}}},
               {"mark", {{"type", "text"}, {"align", "left"}, {"dx", 6}, {"dy", -8}}}};
  text["encoding"] = {{"x", x}, {"y", y}, {"text", {{"field", "text"}}}};
  chart.spec["layer"] = {
      rule, Lines(x, y, names, {ToString(ExchangeWay::kColocatedServers)}, chart.columns),
      text};
  return chart;
}

Chart SharingChart() {
  Chart chart = {.title = "Bytes of each rank for a parameter, by what is shared out",
                 .note = "",
                 .spec = {},
                 .columns = {{"arm", "what is shared out"},
                             {"ranks", "ranks N"},
                             {"bytes", "bytes per parameter"}},
                 .rows = Json::array()};
  std::vector<std::string> names;
  for (int level = 0; level < kSharingLevels; ++level) {
    names.push_back(SharingName(level));
    // 1, 2, 3, 4, 6, 8, 12, ...: so close that a line between two is the curve.
    for (int ranks = 1; ranks <= kMostSharingRanks; ranks += ranks == 1 ? 1
                                                             : ranks % 3 == 0
                                                                 ? ranks / 3
                                                                 : ranks / 2) {
      chart.rows.push_back({{"arm", SharingName(level)},
                            {"ranks", ranks},
                            {"bytes", BytesAtLevel(level, ranks)}});
    }
  }
  chart.spec = EmptySpec(chart.title, 240);
  chart.spec["datasets"] = {{"rows", chart.rows}};
  Json y = Quantity("bytes", "bytes per parameter");
  y["scale"] = {{"domain", {0, MixedPrecisionBytes()}}};
  chart.spec["layer"] = Json::array({Lines(
      DoublingAxis("ranks", "ranks N", kMostSharingRanks), y, names, {}, chart.columns)});
  return chart;
}

Chart SharedModelChart(int64_t parameters, int ranks) {
  Json rows = Json::array();
  Columns colours;
  for (const MixedPrecisionPart& part : MixedPrecisionParts()) {
    colours.emplace_back(part.name, absl::StrCat("--part-", colours.size()));
  }
  for (int level = 0; level < kSharingLevels; ++level) {
    double end = 0;
    for (const MixedPrecisionPart& part : MixedPrecisionParts()) {
      const double gigabytes =
          BytesAtLevel(part, level, ranks) * static_cast<double>(parameters) * 1e-9;
      rows.push_back({{"level", SharingName(level)},
                      {"part", part.name},
                      {"gigabytes", gigabytes},
                      {"begin", end},
                      {"end", end + gigabytes}});
      end += gigabytes;
    }
  }
  return StackedChart(
      absl::StrFormat("%d billion parameters on %d ranks, by what is shared out",
                      parameters / 1'000'000'000, ranks),
      "level", Quantity("begin", "GB of each rank"), std::move(rows), kSharingLevels,
      {{"level", "what is shared out"}, {"part", "of what"}, {"gigabytes", "GB"}},
      colours);
}

Chart RingBudgetChart(const std::vector<BudgetBytes>& budgets) {
  Json rows = Json::array();
  Columns colours;
  std::string bar;
  double end = 0;
  int bars = 0;
  for (const BudgetBytes& budget : budgets) {
    const std::string name =
        absl::StrCat(budget.optimizer, budget.sharded ? ", sharded" : "");
    if (name != bar) {
      bar = name;
      end = 0;
      ++bars;
    }
    const auto known = std::find_if(colours.begin(), colours.end(), [&](const auto& one) {
      return one.first == budget.purpose;
    });
    if (known == colours.end()) {
      colours.emplace_back(budget.purpose, absl::StrCat("--part-", colours.size()));
    }
    rows.push_back({{"worker", name},
                    {"part", budget.purpose},
                    {"bytes", budget.bytes_per_parameter},
                    {"begin", end},
                    {"end", end + budget.bytes_per_parameter}});
    end += budget.bytes_per_parameter;
  }
  return StackedChart(
      "A worker of psring's ring, bytes per parameter", "worker",
      Quantity("begin", "bytes per parameter"), std::move(rows), bars,
      {{"worker", "optimizer"}, {"part", "purpose"}, {"bytes", "bytes per parameter"}},
      colours);
}

}  // namespace psring
