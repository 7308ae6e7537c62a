// Charts of numbers that an arm has once.
#include <algorithm>
#include <cstdint>
#include <numeric>
#include <utility>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "experiments/report/charts.h"

namespace psring {
namespace {

using Json = nlohmann::ordered_json;

struct Part {
  const char* name;
  const char* colour;
  double StepTimes::*value;
};

// In the order of the result table.
constexpr Part kParts[] = {{"data", "--part-0", &StepTimes::data},
                           {"forward", "--part-1", &StepTimes::forward},
                           {"backward", "--part-2", &StepTimes::backward},
                           {"exposed", "--part-3", &StepTimes::exposed},
                           {"optimizer", "--part-4", &StepTimes::optimizer},
                           {"unaccounted", "--part-5", &StepTimes::unaccounted}};
constexpr Part kCauses[] = {{"not ready here", "--part-1", &StepTimes::not_ready},
                            {"peer late", "--part-2", &StepTimes::peer_late},
                            {"on the wire", "--part-3", &StepTimes::on_wire},
                            {"working", "--part-4", &StepTimes::working}};

constexpr int kRowPixels = 26;

int HeightOf(size_t rows) { return 30 + kRowPixels * static_cast<int>(rows); }

// A bar for each arm, of the means over its runs (as the result table has them).
template <size_t n>
std::optional<Chart> StackedBars(const std::string& title, const std::string& colours_of,
                                 const Part (&parts)[n],
                                 const std::vector<ArmRuns>& arms) {
  Chart chart = {.title = title, .spec = {}, .columns = {}, .rows = Json::array()};
  double sum = 0;
  for (const ArmRuns& arm : arms) {
    double end = 0;
    for (const Part& part : parts) {
      double ms = 0;
      for (const ArmResult& run : arm.runs) ms += run.step_ms.*part.value;
      ms /= static_cast<double>(arm.runs.size());
      chart.rows.push_back({{"arm", arm.first().name},
                            {"part", part.name},
                            {"ms", ms},
                            {"begin", end},
                            {"end", end + ms}});
      end += ms;
    }
    sum += end;
  }
  if (sum <= 0) return std::nullopt;
  std::vector<std::pair<std::string, std::string>> colours;
  for (const Part& part : parts) colours.emplace_back(part.name, part.colour);
  chart.columns = {{"arm", "arm"}, {"part", colours_of}, {"ms", "ms per step"}};
  chart.spec = EmptySpec(title, HeightOf(arms.size()));
  chart.spec["datasets"] = {{"rows", chart.rows}};
  chart.spec["data"] = {{"name", "rows"}};
  chart.spec["mark"] = {{"type", "bar"}};
  Json x = Quantity("begin", "ms per step, mean");
  chart.spec["encoding"] = {{"y", Name("arm")},
                            {"x", x},
                            {"x2", {{"field", "end"}}},
                            {"color", NamedColour("part", "", colours)},
                            {"tooltip", Tooltip(chart.columns)}};
  return chart;
}

// Numbers of contributions that have a staleness from `first` to `last`.
struct Bin {
  int64_t first = 0;
  int64_t last = 0;
  int64_t count = 0;
  bool open = false;  // The last one, of all that is staler.

  std::string Text() const {
    if (open) return absl::StrCat(first, "+");
    return first == last ? absl::StrCat(first) : absl::StrCat(first, "-", last);
  }
};

// Each staleness by itself; where there are many, about 20 ranges for 99 % of all
// contributions, and one for the rest.
std::vector<Bin> BinsOf(const std::vector<int64_t>& histogram) {
  constexpr int64_t kMostApart = 30;
  constexpr int64_t kRanges = 20;
  const auto size = static_cast<int64_t>(histogram.size());
  const double all = static_cast<double>(
      std::accumulate(histogram.begin(), histogram.end(), int64_t{0}));
  int64_t usual = size;  // So many values cover 99 %.
  if (size > kMostApart) {
    double covered = 0;
    for (usual = 0; usual < size && covered < 0.99 * all; ++usual) {
      covered += static_cast<double>(histogram[usual]);
    }
  }
  const int64_t width =
      size > kMostApart ? std::max<int64_t>(1, (usual + kRanges - 1) / kRanges) : 1;
  std::vector<Bin> bins;
  for (int64_t value = 0; value < size; ++value) {
    if (bins.empty() || value == usual || (value < usual && value % width == 0)) {
      bins.push_back({.first = value, .last = value, .count = 0, .open = value >= usual});
    }
    bins.back().last = value;
    bins.back().count += histogram[value];
  }
  return bins;
}

}  // namespace

std::optional<Chart> StepPartsChart(const std::vector<ArmRuns>& arms) {
  return StackedBars("Where the time of a step went", "part", kParts, arms);
}

std::optional<Chart> ExposedCausesChart(const std::vector<ArmRuns>& arms) {
  return StackedBars("Why communication was exposed", "cause", kCauses, arms);
}

std::optional<Chart> StalenessHistogram(const ArmRuns& arm, const ArmNames& arms) {
  const Staleness staleness = arm.AllStaleness();
  if (staleness.max == 0) return std::nullopt;
  int64_t all = 0;
  for (const int64_t count : staleness.histogram) all += count;
  const std::string& name = arm.first().name;
  Chart chart = {
      .title = absl::StrCat("Staleness in ", name),
      .note = absl::StrFormat("mean %.2f, at most %d", staleness.mean, staleness.max),
      .spec = {},
      .columns = {{"staleness", "staleness, updates"},
                  {"contributions", "applied contributions to slots"},
                  {"share", "share, %"}},
      .rows = Json::array()};
  for (const Bin& bin : BinsOf(staleness.histogram)) {
    chart.rows.push_back(
        {{"staleness", bin.Text()},
         {"contributions", bin.count},
         {"share", 100.0 * static_cast<double>(bin.count) / static_cast<double>(all)},
         {"arm", name}});
  }
  chart.spec = EmptySpec(chart.title, 150);
  chart.spec["datasets"] = {{"rows", chart.rows}};
  chart.spec["data"] = {{"name", "rows"}};
  chart.spec["mark"] = {{"type", "bar"}};
  Json x = Name("staleness");
  x["title"] = "staleness, updates";
  x["axis"] = {{"labelAngle", 0}, {"labelOverlap", true}};
  Json colour = ArmColour("arm", arms);
  colour["legend"] = nullptr;
  chart.spec["encoding"] = {{"x", x},
                            {"y", Quantity("share", "share of contributions, %")},
                            {"color", colour},
                            {"tooltip", Tooltip(chart.columns)}};
  return chart;
}

bool ContributeAlike(const ArmRuns& arm) {
  return std::all_of(arm.runs.begin(), arm.runs.end(), [](const ArmResult& run) {
    const auto& workers = run.contributions.workers;
    return std::all_of(workers.begin(), workers.end(), [&](const auto& worker) {
      return worker.made == workers.front().made && worker.applied == worker.made;
    });
  });
}

std::optional<Chart> ContributionsChart(const std::vector<ArmRuns>& arms) {
  Chart chart = {.title = "What became of each worker's contributions",
                 .note = "",
                 .spec = {},
                 .columns = {{"worker", "arm / worker"},
                             {"fate", "what became of them"},
                             {"gradients", "gradients"}},
                 .rows = Json::array()};
  size_t workers = 0;
  for (const ArmRuns& arm : arms) {
    if (ContributeAlike(arm)) continue;
    const auto& made = arm.first().contributions.workers;
    for (size_t rank = 0; rank < made.size(); ++rank) {
      ++workers;
      double end = 0;
      const std::pair<const char*, double WorkerContributions::*> fates[] = {
          {"applied", &WorkerContributions::applied},
          {"dropped: late", &WorkerContributions::late},
          {"dropped: too stale", &WorkerContributions::stale}};
      for (const auto& [fate, member] : fates) {
        const double count = arm.Over([rank, member = member](const ArmResult& run) {
                                  return run.contributions.workers[rank].*member;
                                })
                                 .median;
        if (count == 0) continue;
        chart.rows.push_back({{"worker", absl::StrCat(arm.first().name, " / ", rank)},
                              {"fate", fate},
                              {"gradients", count},
                              {"begin", end},
                              {"end", end + count}});
        end += count;
      }
    }
  }
  if (chart.rows.empty()) return std::nullopt;
  chart.spec = EmptySpec(chart.title, 30 + 16 * static_cast<int>(workers));
  chart.spec["datasets"] = {{"rows", chart.rows}};
  chart.spec["data"] = {{"name", "rows"}};
  chart.spec["mark"] = {{"type", "bar"}};
  chart.spec["encoding"] = {
      {"y", Name("worker")},
      {"x", Quantity("begin", "whole gradients, median over seeds")},
      {"x2", {{"field", "end"}}},
      {"color", NamedColour("fate", "",
                            {{"applied", "--part-1"},
                             {"dropped: late", "--part-3"},
                             {"dropped: too stale", "--part-2"}})},
      {"tooltip", Tooltip(chart.columns)}};
  return chart;
}

std::optional<Chart> PayloadChart(const std::vector<ArmRuns>& arms) {
  Chart chart = {.title = "Payload per step, counted and by formula",
                 .note = "Bars are what processes counted, strokes what the formula has.",
                 .spec = {},
                 .columns = {{"process", "arm / process"},
                             {"direction", "direction"},
                             {"counted", "counted, kB per step"},
                             {"formula", "formula, kB per step"}},
                 .rows = Json::array()};
  size_t processes = 0;
  for (const ArmRuns& arm : arms) {
    const EndpointTraffic* first = nullptr;
    for (const EndpointTraffic& endpoint : arm.first().endpoints) {
      // Those that are alike share a bar.
      if (first != nullptr && first->role == endpoint.role &&
          first->payload_out == endpoint.payload_out &&
          first->payload_in == endpoint.payload_in &&
          first->formula_out == endpoint.formula_out &&
          first->formula_in == endpoint.formula_in) {
        continue;
      }
      first = &endpoint;
      ++processes;
      const auto per_step = [&](int64_t bytes) {
        return static_cast<double>(bytes) * 1e-3 /
               static_cast<double>(std::max<int64_t>(1, endpoint.steps));
      };
      const std::string name = absl::StrCat(arm.first().name, " / ", endpoint.name);
      chart.rows.push_back({{"process", name},
                            {"direction", "out"},
                            {"counted", per_step(endpoint.payload_out)},
                            {"formula", per_step(endpoint.formula_out)}});
      chart.rows.push_back({{"process", name},
                            {"direction", "in"},
                            {"counted", per_step(endpoint.payload_in)},
                            {"formula", per_step(endpoint.formula_in)}});
    }
  }
  if (chart.rows.empty()) return std::nullopt;
  chart.spec = EmptySpec(chart.title, 30 + 24 * static_cast<int>(processes));
  chart.spec["datasets"] = {{"rows", chart.rows}};
  chart.spec["data"] = {{"name", "rows"}};
  const Json y = Name("process");
  const Json offset = Name("direction");
  Json bars = {{"mark", {{"type", "bar"}}}};
  bars["encoding"] = {
      {"y", y},
      {"yOffset", offset},
      {"x", Quantity("counted", "kB per step")},
      {"color", NamedColour("direction", "", {{"out", "--part-1"}, {"in", "--part-2"}})},
      {"tooltip", Tooltip(chart.columns)}};
  Json ticks = {{"mark", {{"type", "tick"}, {"color", "var(--ink)"}, {"thickness", 2}}}};
  ticks["encoding"] = {
      {"y", y}, {"yOffset", offset}, {"x", Quantity("formula", "kB per step")}};
  chart.spec["layer"] = {bars, ticks};
  return chart;
}

}  // namespace psring
