#include "experiments/bench/step/report.h"

#include <cmath>
#include <cstdint>
#include <optional>
#include <utility>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "experiments/text.h"
#include "nlohmann/json.hpp"

namespace psring {
namespace {

using Json = nlohmann::ordered_json;

std::string Number(double value) { return absl::StrFormat("%.2f", value); }

std::string NumberOrNothing(const std::optional<double>& value) {
  return value ? Number(*value) : "";
}

std::string CapText(const std::optional<int64_t>& cap) {
  if (!cap) return "";
  for (const auto& [shift, unit] : {std::pair(20, "M"), std::pair(10, "K")}) {
    if (*cap % (int64_t{1} << shift) == 0) return absl::StrCat(*cap >> shift, unit);
  }
  return absl::StrCat(*cap);
}

template <typename Value>
Json ValueOrNull(const std::optional<Value>& value) {
  return value ? Json(*value) : Json(nullptr);
}

Json Finite(double value) { return std::isfinite(value) ? Json(value) : Json(nullptr); }

}  // namespace

Environment StepWork(const StepBenchOptions& options, const StepSettings& settings) {
  return {{"model", absl::StrCat(options.model, ", ", WithThousands(settings.parameters),
                                 " parameters")},
          {"batch", absl::StrCat(options.batch,
                                 " samples a rank and step, made up and in memory")},
          {"optimizer", absl::StrFormat("sgd, learning rate %.3g, momentum %.3g",
                                        kStepLearningRate, kStepMomentum)}};
}

std::string StepTable(const StepSettings& settings, const std::vector<StepRow>& rows) {
  std::vector<std::vector<std::string>> cells;
  for (const StepRow& row : rows) {
    const StepContestant& contestant = row.contestant;
    cells.push_back({contestant.peer, contestant.arm, contestant.transport,
                     absl::StrCat(contestant.ranks), WithThousands(settings.parameters),
                     CapText(contestant.cap_bytes),
                     WithThousands(std::llround(row.samples_per_second)),
                     Number(row.min_ms), Number(row.median_ms), Number(row.p99_ms),
                     Number(row.forward_ms), Number(row.backward_ms),
                     NumberOrNothing(row.exposed_ms), Number(row.optimizer_ms),
                     Number(row.other_ms), absl::StrFormat("%.4f", row.last_loss),
                     NumberOrNothing(row.ratio)});
  }
  return FormatTable({"peer", "arm", "transport", "ranks", "parameters", "cap",
                      "samples/s", "min", "step", "p99", "forward", "backward", "exposed",
                      "optimizer", "other", "loss", "ratio"},
                     cells);
}

std::string StepFooter(const BenchContext& context) {
  return absl::StrCat(
      "\n  min, step (median), p99 and the parts of the mean step in milliseconds, of "
      "the slowest rank;\n  PyTorch's exchange is a part of its backward; ratio: this "
      "row's step / that of psring's first with as many ranks,\n  median over rounds\n",
      EnvironmentText({{"load after", context.load_after}}));
}

std::string StepJson(const BenchContext& context, const StepBenchOptions& options,
                     const StepSettings& settings, const std::vector<StepRow>& rows) {
  Json json = ContextJson(context);
  json["model"] = options.model;
  json["parameters"] = settings.parameters;
  json["batch"] = options.batch;
  json["rows"] = Json::array();
  for (const StepRow& row : rows) {
    Json item;
    item["peer"] = row.contestant.peer;
    item["arm"] = row.contestant.arm;
    item["transport"] = row.contestant.transport;
    item["ranks"] = row.contestant.ranks;
    item["cap_bytes"] = ValueOrNull(row.contestant.cap_bytes);
    item["samples_per_second"] = row.samples_per_second;
    item["step_ms"] = {
        {"min", row.min_ms}, {"median", row.median_ms}, {"p99", row.p99_ms}};
    item["parts_ms"] = {{"forward", row.forward_ms},
                        {"backward", row.backward_ms},
                        {"exposed", ValueOrNull(row.exposed_ms)},
                        {"optimizer", row.optimizer_ms},
                        {"other", row.other_ms}};
    item["first_loss"] = Finite(row.first_loss);
    item["last_loss"] = Finite(row.last_loss);
    item["ratio"] = ValueOrNull(row.ratio);
    json["rows"].push_back(std::move(item));
  }
  return json.dump(2) + "\n";
}

}  // namespace psring
