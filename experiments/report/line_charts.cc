// Charts of points in time, and of places.
#include <algorithm>
#include <cctype>
#include <cmath>
#include <iterator>
#include <set>
#include <utility>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "experiments/report/charts.h"
#include "experiments/report/words.h"

namespace psring {
namespace {

using Json = nlohmann::ordered_json;

// How hot a link is, in as many steps as the eye tells apart; utilisation below `below`.
struct Heat {
  double below;
  const char* name;
  const char* colour;
};
constexpr Heat kHeats[] = {{0.25, "below 25 %", "--heat-0"},
                           {0.50, "25 to 50 %", "--heat-1"},
                           {0.75, "50 to 75 %", "--heat-2"},
                           {INFINITY, "75 % and more", "--heat-3"}};

const char* HeatOf(double share) {
  const auto heat = std::find_if(std::begin(kHeats), std::end(kHeats),
                                 [&](const Heat& one) { return share < one.below; });
  return heat->name;
}

// "w0", "s0", "w1 + s1": there is little room at a node.
std::string ShortName(const std::string& name) {
  std::string text;
  bool word = true;
  for (const char c : name) {
    if (c == ' ') {
      word = true;
    } else if (word || (c >= '0' && c <= '9') || c == '+') {
      text += c;
      word = false;
    }
  }
  return text;
}

}  // namespace

std::vector<Chart> CurveCharts(const std::string& what, bool percent,
                               const std::vector<Curve>& curves, const ArmNames& arms) {
  if (curves.empty()) return {};
  const double unit = percent ? 100 : 1;
  const std::string y_title = percent ? absl::StrCat(what, ", %") : what;
  Json rows = Json::array();
  bool band = false;
  for (const Curve& curve : curves) {
    for (const CurvePoint& point : curve.points) {
      if (!std::isfinite(point.y.median)) continue;
      rows.push_back({{"arm", curve.arm},
                      {"step", point.step},
                      {"seconds", point.seconds},
                      {"megabytes", point.bytes * 1e-6},
                      {"y", unit * point.y.median},
                      {"least", unit * point.y.min},
                      {"most", unit * point.y.max}});
      band = band || point.y.min < point.y.max;
    }
  }
  if (rows.empty()) return {};
  std::vector<Chart> charts;
  const std::pair<const char*, const char*> axes[] = {
      {"step", "steps"}, {"seconds", "seconds"}, {"megabytes", "MB that all sent"}};
  for (const auto& [field, title] : axes) {
    Chart chart = {
        .title = absl::StrCat(what, " against ",
                              std::string(field) == "megabytes" ? "bytes" : title),
        .note = band ? "Lines are medians over seeds, bands the range." : "",
        .spec = {},
        .columns = {{"arm", "arm"}, {field, title}, {"y", y_title}},
        .rows = rows};
    chart.title[0] = static_cast<char>(std::toupper(chart.title[0]));
    if (band) {
      chart.columns.emplace_back("least", "least");
      chart.columns.emplace_back("most", "most");
    }
    chart.spec = EmptySpec(chart.title, 220);
    chart.spec["datasets"] = {{"rows", rows}};
    chart.spec["data"] = {{"name", "rows"}};
    const Json x = Quantity(field, title);
    Json colour = ArmColour("arm", arms);
    Json line = {{"mark", {{"type", "line"}, {"strokeWidth", 2}}}};
    Json y = Quantity("y", y_title);
    y["scale"] = {{"zero", false}};
    line["encoding"] = {
        {"x", x}, {"y", y}, {"color", colour}, {"tooltip", Tooltip(chart.columns)}};
    chart.spec["layer"] = Json::array({line});
    if (band) {
      Json area = {{"mark", {{"type", "area"}, {"opacity", 0.2}}}};
      Json least = Quantity("least", y_title);
      least["scale"] = {{"zero", false}};
      area["encoding"] = {
          {"x", x}, {"y", least}, {"y2", {{"field", "most"}}}, {"color", colour}};
      chart.spec["layer"].insert(chart.spec["layer"].begin(), area);
    }
    charts.push_back(std::move(chart));
  }
  return charts;
}

Chart TrafficChart(const TrafficPicture& picture, double most_bytes) {
  const bool known =
      std::any_of(picture.links.begin(), picture.links.end(),
                  [](const TrafficLink& link) { return link.utilisation.has_value(); });
  const std::string heat_title = known ? "link in use" : "bytes, of the busiest link's";
  Chart chart = {.title = absl::StrCat(picture.arm, picture.ring ? ": a ring" : ""),
                 .note = picture.headline,
                 .spec = {},
                 .columns = {{"link", "link"},
                             {"out", "out, MB per step"},
                             {"in", "in, MB per step"}},
                 .rows = Json::array()};
  if (known) chart.columns.emplace_back("utilisation", "in use, %");
  Json lines = Json::array();
  for (const TrafficLink& link : picture.links) {
    Json row = {{"link", link.name},
                {"out", link.out_bytes * 1e-6},
                {"in", link.in_bytes * 1e-6}};
    if (known) row["utilisation"] = 100 * link.utilisation.value_or(0);
    const double share = most_bytes > 0 ? link.bytes() / most_bytes : 0;
    Json line = row;
    line["x1"] = link.x1;
    line["y1"] = link.y1;
    line["x2"] = link.x2;
    line["y2"] = link.y2;
    line["bytes"] = link.bytes();
    line["heat"] = HeatOf(known ? link.utilisation.value_or(0) : share);
    chart.rows.push_back(std::move(row));
    lines.push_back(std::move(line));
  }
  Json nodes = Json::array();
  bool shared = false;  // A node is a worker and a server.
  for (const TrafficNode& node : picture.nodes) {
    shared = shared || node.name.find('+') != std::string::npos;
    nodes.push_back({{"x", node.x},
                     {"y", node.y},
                     {"name", ShortName(node.name)},
                     {"full", node.name},
                     {"role", node.server ? "server" : "worker"}});
  }
  // Of links that are alike, in the middle of the ring; a star has none there.
  const TrafficLink& hottest = picture.links[picture.hottest];
  Json labels = Json::array();
  if (picture.alike && picture.ring) {
    labels.push_back(
        {{"x", 0}, {"y", 0}, {"text", RoughBytes(hottest.bytes()) + " each"}});
  } else if (!picture.alike) {
    labels.push_back({{"x", (hottest.x1 + hottest.x2) / 2},
                      {"y", (hottest.y1 + hottest.y2) / 2},
                      {"text", RoughBytes(hottest.bytes())}});
  }
  chart.spec =
      EmptySpec(absl::StrCat("Traffic of ", chart.title, "; ", picture.headline), 260);
  chart.spec["datasets"] = {{"links", lines}, {"nodes", nodes}, {"labels", labels}};
  const auto place = [](const char* field) {
    return Json{{"field", field},
                {"type", "quantitative"},
                {"scale", {{"domain", {-1, 1}}}},
                {"axis", nullptr}};
  };
  std::vector<std::pair<std::string, std::string>> colours;
  for (const Heat& heat : kHeats) colours.emplace_back(heat.name, heat.colour);
  Json rules = {{"data", {{"name", "links"}}},
                {"mark", {{"type", "rule"}, {"strokeCap", "round"}}}};
  rules["encoding"] = {{"x", place("x1")},
                       {"y", place("y1")},
                       {"x2", {{"field", "x2"}}},
                       {"y2", {{"field", "y2"}}},
                       {"strokeWidth",
                        {{"field", "bytes"},
                         {"type", "quantitative"},
                         {"scale", {{"domain", {0, most_bytes}}, {"range", {2, 26}}}},
                         {"legend", nullptr}}},
                       {"color", NamedColour("heat", heat_title, colours)},
                       {"tooltip", Tooltip(chart.columns)}};
  Json points = {{"data", {{"name", "nodes"}}},
                 {"mark",
                  {{"type", "point"},
                   {"filled", true},
                   {"opacity", 1},
                   {"size", shared ? 1700 : 900},
                   {"stroke", "var(--ink)"},
                   {"fill", "var(--paper)"}}}};
  points["encoding"] = {
      {"x", place("x")},
      {"y", place("y")},
      {"shape",
       {{"field", "role"},
        {"type", "nominal"},
        {"scale", {{"domain", {"worker", "server"}}, {"range", {"circle", "square"}}}},
        {"legend", nullptr}}},
      {"tooltip", Tooltip({{"full", "process"}})}};
  Json names = {{"data", {{"name", "nodes"}}},
                {"mark", {{"type", "text"}, {"fontSize", 11}}}};
  names["encoding"] = {
      {"x", place("x")}, {"y", place("y")}, {"text", {{"field", "name"}}}};
  Json label = {{"data", {{"name", "labels"}}},
                {"mark",
                 {{"type", "text"},
                  {"fontSize", 13},
                  {"fontWeight", "bold"},
                  {"align", picture.alike ? "center" : "left"},
                  {"dx", picture.alike ? 0 : 18}}}};
  label["encoding"] = {
      {"x", place("x")}, {"y", place("y")}, {"text", {{"field", "text"}}}};
  chart.spec["layer"] = {rules, points, names};
  if (!labels.empty()) chart.spec["layer"].push_back(label);
  return chart;
}

std::optional<Chart> ExchangeChart(const ExchangeLine& line) {
  if (line.buckets.empty()) return std::nullopt;
  std::set<int> ranks;
  std::set<int> indices;
  for (const BucketLine& bucket : line.buckets) {
    ranks.insert(bucket.rank);
    indices.insert(bucket.bucket);
  }
  Chart chart = {
      .title = absl::StrFormat("Step %d of %s", line.step, line.arm),
      .note = absl::StrCat(
          "The step of worker 0 that took the median time. Grey is backward; a thin line "
          "is a bucket that is full and waits to be launched, a bar one on its way. ",
          ranks.size() < static_cast<size_t>(line.ranks)
              ? absl::StrFormat("Of %d workers the first %d. ", line.ranks,
                                static_cast<int>(ranks.size()))
              : "",
          "Clocks are aligned within ", RoughSeconds(line.error_ms / 1e3), "."),
      .spec = {},
      .columns = {{"worker", "worker"},
                  {"bucket", "bucket"},
                  {"ready", "ready, ms"},
                  {"launched", "launched, ms"},
                  {"done", "done, ms"}},
      .rows = Json::array()};
  for (const BucketLine& bucket : line.buckets) {
    chart.rows.push_back({{"worker", absl::StrCat("worker ", bucket.rank)},
                          {"bucket", bucket.bucket},
                          {"ready", bucket.ready},
                          {"launched", bucket.launched},
                          {"done", bucket.done}});
  }
  Json backward = Json::array();
  for (const BackwardLine& one : line.backward) {
    backward.push_back({{"worker", absl::StrCat("worker ", one.rank)},
                        {"begin", one.begin},
                        {"end", one.end}});
  }
  // Of a rank: as high as its buckets need, neither hair-thin nor taller than a hand.
  const int lane = std::clamp(120 / static_cast<int>(indices.size()), 3, 14);
  const int height = static_cast<int>(ranks.size() * indices.size()) * lane +
                     12 * static_cast<int>(ranks.size());
  chart.spec = EmptySpec(chart.title, height);
  chart.spec["datasets"] = {{"rows", chart.rows}, {"backward", backward}};
  const std::string x_title = "ms since worker 0 began the step";
  const auto bar = [&](const char* data, const char* from, const char* to, Json mark) {
    Json layer = {{"data", {{"name", data}}}, {"mark", std::move(mark)}};
    layer["encoding"] = {
        {"y", Name("worker")}, {"x", Quantity(from, x_title)}, {"x2", {{"field", to}}}};
    return layer;
  };
  Json grey = bar("backward", "begin", "end",
                  {{"type", "bar"}, {"color", "var(--part-5)"}, {"opacity", 0.35}});
  grey["encoding"]["tooltip"] =
      Tooltip({{"worker", "worker"}, {"begin", "backward from, ms"}, {"end", "to, ms"}});
  Json waiting = bar("rows", "ready", "launched",
                     {{"type", "rule"}, {"color", "var(--ink)"}, {"strokeWidth", 1}});
  Json moving =
      bar("rows", "launched", "done", {{"type", "bar"}, {"color", "var(--part-3)"}});
  for (Json* const layer : {&waiting, &moving}) {
    (*layer)["encoding"]["yOffset"] = {{"field", "bucket"}, {"type", "ordinal"}};
    (*layer)["encoding"]["tooltip"] = Tooltip(chart.columns);
  }
  chart.spec["layer"] = {grey, waiting, moving};
  return chart;
}

}  // namespace psring
