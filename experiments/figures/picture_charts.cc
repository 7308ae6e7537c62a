// Charts of what happened: chunks on their way, and steps in time.
#include <cmath>
#include <iterator>
#include <string>
#include <utility>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "experiments/figures/figure_charts.h"
#include "experiments/report/words.h"

namespace psring {
namespace {

using Json = nlohmann::ordered_json;
using Columns = std::vector<std::pair<std::string, std::string>>;

// A place along an axis, which has no name of its own.
Json Place(const std::string& field, Json domain, Json axis, bool downwards = false) {
  return {
      {"field", field},
      {"type", "quantitative"},
      {"title", nullptr},
      {"scale", {{"domain", std::move(domain)}, {"nice", false}, {"reverse", downwards}}},
      {"axis", std::move(axis)}};
}

// Names in the middle of lanes of height 1.
Json LaneNames(const std::vector<std::string>& names) {
  Json values = Json::array();
  for (size_t i = 0; i < names.size(); ++i) {
    values.push_back(static_cast<double>(i) + 0.5);
  }
  return {{"values", std::move(values)},
          {"labelExpr", absl::StrCat(Json(names).dump(), "[floor(datum.value)]")},
          {"grid", false},
          {"ticks", false},
          {"domain", false},
          {"labelOverlap", false}};
}

Json Layer(const char* data, Json mark, Json encoding) {
  return {{"data", {{"name", data}}},
          {"mark", std::move(mark)},
          {"encoding", std::move(encoding)}};
}

constexpr char kOwnTerm[] = "a rank's own term";
constexpr char kPartialSum[] = "partial sum";
constexpr char kFinishedSum[] = "finished sum";

// "0+1"; of many ranks "01", for which there is room.
std::string TermsText(const ChunkCell& cell, int ranks) {
  constexpr int kMostApart = 4;
  return absl::StrJoin(cell.terms, ranks <= kMostApart ? "+" : "");
}

// How stale a gradient is, in as many steps as the eye tells apart; below `below`.
struct StalenessColour {
  double below;
  const char* name;
  const char* colour;
};
constexpr StalenessColour kStaleness[] = {{1, "0, fresh", "--arm-2"},
                                          {3, "1 or 2", "--heat-1"},
                                          {6, "3 to 5", "--heat-2"},
                                          {INFINITY, "6 and more", "--heat-3"}};

const char* StalenessName(int64_t staleness) {
  const StalenessColour* colour = std::begin(kStaleness);
  while (static_cast<double>(staleness) >= colour->below) ++colour;
  return colour->name;
}

}  // namespace

Chart GridChart(const ChunkGrid& grid, int ranks) {
  Chart chart = {.title = grid.title,
                 .note = absl::StrJoin(grid.notes, " "),
                 .spec = {},
                 .columns = {{"rank", "rank"},
                             {"chunk", "chunk"},
                             {"terms", "sum of the terms of ranks"},
                             {"value", "value"},
                             {"from", "came from rank"}},
                 .rows = Json::array()};
  Json cells = Json::array();
  Json moves = Json::array();
  for (const ChunkCell& cell : grid.cells) {
    const auto terms = static_cast<int>(cell.terms.size());
    const Json row = {{"rank", cell.rank},
                      {"chunk", cell.chunk},
                      {"terms", TermsText(cell, ranks)},
                      {"value", cell.value},
                      {"from", cell.from ? absl::StrCat(*cell.from) : ""}};
    chart.rows.push_back(row);
    Json drawn = row;
    drawn["kind"] = terms == ranks ? kFinishedSum : terms > 1 ? kPartialSum : kOwnTerm;
    drawn["strength"] = 0.12 + 0.4 * terms / ranks;
    drawn["x1"] = cell.chunk + 0.03;
    drawn["x2"] = cell.chunk + 0.97;
    drawn["y1"] = cell.rank + 0.06;
    drawn["y2"] = cell.rank + 0.94;
    drawn["x"] = cell.chunk + 0.45;
    drawn["y"] = cell.rank + 0.5;
    cells.push_back(drawn);
    if (!cell.from) continue;
    const bool down = *cell.from < cell.rank;
    drawn["x"] = cell.chunk + 0.88;
    drawn["tail"] = *cell.from + 0.5;
    drawn["tip"] = cell.rank + (down ? 0.4 : 0.6);
    drawn["way"] = down ? "down" : "up";
    moves.push_back(std::move(drawn));
  }
  chart.spec = EmptySpec(chart.title, 36 * ranks);
  chart.spec["datasets"] = {{"cells", std::move(cells)}};
  std::vector<std::string> rank_names;
  std::vector<std::string> chunk_names;
  for (int i = 0; i < ranks; ++i) {
    rank_names.push_back(absl::StrCat("rank ", i));
    chunk_names.push_back(absl::StrCat("chunk ", i));
  }
  Json chunk_axis = LaneNames(chunk_names);
  chunk_axis["orient"] = "top";
  const auto x = [&](const char* field) { return Place(field, {0, ranks}, chunk_axis); };
  const auto y = [&](const char* field) {
    return Place(field, {0, ranks}, LaneNames(rank_names), /*downwards=*/true);
  };
  const Json box = {{"x", x("x1")},
                    {"x2", {{"field", "x2"}}},
                    {"y", y("y1")},
                    {"y2", {{"field", "y2"}}}};
  Json filled = box;
  filled["color"] = NamedColour(
      "kind", "",
      {{kOwnTerm, "--part-0"}, {kPartialSum, "--heat-2"}, {kFinishedSum, "--arm-2"}});
  // Of all grids the first one's is enough.
  if (!moves.empty()) filled["color"]["legend"] = nullptr;
  filled["fillOpacity"] = {
      {"field", "strength"}, {"type", "quantitative"}, {"scale", nullptr}};
  filled["tooltip"] = Tooltip(chart.columns);
  chart.spec["layer"] = Json::array();
  chart.spec["layer"].push_back(Layer("cells", {{"type", "rect"}}, filled));
  if (!moves.empty()) {
    chart.spec["datasets"]["moves"] = std::move(moves);
    const Json ink = "var(--ink)";
    chart.spec["layer"].push_back(
        Layer("moves", {{"type", "rect"}, {"fillOpacity", 0}, {"stroke", ink}}, box));
    chart.spec["layer"].push_back(
        Layer("moves", {{"type", "rule"}, {"color", ink}, {"strokeWidth", 1.5}},
              {{"x", x("x")}, {"y", y("tail")}, {"y2", {{"field", "tip"}}}}));
    chart.spec["layer"].push_back(Layer(
        "moves",
        {{"type", "point"},
         {"filled", true},
         {"opacity", 1},
         {"size", 60},
         {"color", ink}},
        {{"x", x("x")},
         {"y", y("tip")},
         {"shape",
          {{"field", "way"},
           {"type", "nominal"},
           {"scale",
            {{"domain", {"down", "up"}}, {"range", {"triangle-down", "triangle-up"}}}},
           {"legend", nullptr}}}}));
  }
  chart.spec["layer"].push_back(
      Layer("cells", {{"type", "text"}, {"fontSize", 11}},
            {{"x", x("x")}, {"y", y("y")}, {"text", {{"field", "terms"}}}}));
  return chart;
}

Chart TimeLineChart(const StepTimeLine& line) {
  Chart chart = {
      .title = absl::StrCat(line.title, ": ", line.mode),
      .note = absl::StrCat(
          "Arrows go from where a worker launches the bucket of slot 0 to where server ",
          line.server, " has applied its gradient. ",
          line.unknown.empty()
              ? ""
              : absl::StrCat("There are none, because the plan is not known: ",
                             line.unknown, ". "),
          "Clocks are aligned within ", RoughSeconds(line.error_ms / 1e3), "."),
      .spec = {},
      .columns = {{"worker", "gradient of worker"},
                  {"step", "of its step"},
                  {"applied", "applied, ms"},
                  {"staleness", "staleness, updates"}},
      .rows = Json::array()};
  std::vector<std::string> lanes;
  for (int rank = 0; rank < line.workers; ++rank) {
    lanes.push_back(absl::StrCat("worker ", rank));
  }
  lanes.push_back(absl::StrCat("server ", line.server));
  const double server = line.workers;
  Json bars = Json::array();
  for (const StepBar& bar : line.bars) {
    const Json step = {{"worker", bar.rank},
                       {"step", bar.step},
                       {"y1", bar.rank + 0.2},
                       {"y2", bar.rank + 0.8}};
    for (const bool computes : {true, false}) {
      Json& part = bars.emplace_back(step);
      part["what"] = computes ? "computes" : "waits for parameters";
      part["begin"] = computes ? bar.begin : bar.computed;
      part["end"] = computes ? bar.computed : bar.end;
    }
  }
  Json updates = Json::array();
  Json arrows = Json::array();
  for (const AppliedGradient& applied : line.applied) {
    const Json row = {{"worker", applied.rank},
                      {"step", applied.step},
                      {"applied", applied.applied},
                      {"staleness", applied.staleness}};
    chart.rows.push_back(row);
    Json& update = updates.emplace_back(row);
    update["kind"] = StalenessName(applied.staleness);
    update["y1"] = server + 0.3;
    update["y2"] = server + 0.9;
    if (!applied.launched) continue;
    Json& arrow = arrows.emplace_back(update);
    arrow["launched"] = *applied.launched;
    arrow["tail"] = applied.rank + 0.8;
    arrow["tip"] = server + 0.3;
  }
  chart.spec = EmptySpec(chart.title, 44 * static_cast<int>(lanes.size()));
  chart.spec["datasets"] = {{"bars", std::move(bars)}};
  const auto x = [&](const char* field) {
    Json place = Place(field, {0, line.length_ms}, {{"grid", false}});
    place["title"] = "ms since this stretch of the run began";
    return place;
  };
  const auto y = [&](const char* field) {
    return Place(field, {0, server + 1}, LaneNames(lanes), /*downwards=*/true);
  };
  Columns colours;
  for (const StalenessColour& one : kStaleness) {
    colours.emplace_back(one.name, one.colour);
  }
  const Json colour = NamedColour("kind", "staleness, updates", colours);
  Json unnamed = colour;
  unnamed["legend"] = nullptr;
  const Json tooltip = Tooltip(chart.columns);
  chart.spec["layer"] = Json::array();
  chart.spec["layer"].push_back(Layer(
      "bars", {{"type", "rect"}, {"stroke", "var(--paper)"}, {"strokeWidth", 1}},
      {{"x", x("begin")},
       {"x2", {{"field", "end"}}},
       {"y", y("y1")},
       {"y2", {{"field", "y2"}}},
       {"color",
        NamedColour("what", "worker",
                    {{"computes", "--part-1"}, {"waits for parameters", "--part-5"}})},
       {"tooltip",
        Tooltip({{"worker", "worker"}, {"step", "step"}, {"what", "which"}})}}));
  if (!updates.empty()) {
    chart.spec["datasets"]["updates"] = std::move(updates);
    chart.spec["layer"].push_back(Layer("updates", {{"type", "rule"}, {"strokeWidth", 3}},
                                        {{"x", x("applied")},
                                         {"y", y("y1")},
                                         {"y2", {{"field", "y2"}}},
                                         {"color", colour},
                                         {"tooltip", tooltip}}));
  }
  if (!arrows.empty()) {
    chart.spec["datasets"]["arrows"] = std::move(arrows);
    chart.spec["layer"].push_back(Layer("arrows",
                                        {{"type", "rule"}, {"strokeWidth", 1.5}},
                                        {{"x", x("launched")},
                                         {"x2", {{"field", "applied"}}},
                                         {"y", y("tail")},
                                         {"y2", {{"field", "tip"}}},
                                         {"color", unnamed},
                                         {"tooltip", tooltip}}));
    chart.spec["layer"].push_back(Layer("arrows",
                                        {{"type", "point"},
                                         {"shape", "triangle-down"},
                                         {"filled", true},
                                         {"opacity", 1},
                                         {"size", 50}},
                                        {{"x", x("applied")},
                                         {"y", y("tip")},
                                         {"color", unnamed},
                                         {"tooltip", tooltip}}));
  }
  chart.spec["resolve"] = {{"scale", {{"color", "independent"}}}};
  // One legend below the other: side by side they are wider than a phone.
  chart.spec["config"] = {
      {"legend",
       {{"layout", {{"bottom", {{"anchor", "start"}, {"direction", "vertical"}}}}}}}};
  return chart;
}

}  // namespace psring
