#include "experiments/bench/apply/report.h"

#include <utility>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "experiments/bench/apply/plan.h"
#include "experiments/bench/apply/received.h"
#include "experiments/text.h"
#include "nlohmann/json.hpp"

namespace psring {
namespace {

std::string Microseconds(double value) { return absl::StrFormat("%.1f", value); }
std::string Speed(double value) { return absl::StrFormat("%.2f", value); }

}  // namespace

Environment ApplyWork(const ApplyOptions& options, const ApplySettings& settings,
                      const ApplyMachine& machine) {
  return {
      {"last-level cache", absl::StrCat(WithThousands(machine.cache_bytes), " bytes")},
      {"working set",
       absl::StrCat(WithThousands(settings.working_set_bytes), " bytes a row, or more")},
      {"memory", absl::StrCat(WithThousands(settings.memory_bytes),
                              " bytes at most, the triad's included")},
      {"contributions", absl::StrCat(options.contributions)},
      {"threads", absl::StrCat(options.threads)}};
}

std::string ApplyTable(const std::vector<ApplyRow>& rows) {
  std::vector<std::vector<std::string>> cells;
  for (const ApplyRow& row : rows) {
    cells.push_back({WithThousands(row.row.size_bytes()), WithThousands(row.row.count),
                     row.row.optimizer, PieceKindName(row.row.pieces),
                     Microseconds(row.min_us), Microseconds(row.median_us),
                     Microseconds(row.p99_us), Speed(row.speed), Speed(row.triad_speed),
                     absl::StrFormat("%.2f", row.ratio), absl::StrCat(row.wrong)});
  }
  return FormatTable({"size", "count", "optimizer", "pieces", "min", "time", "p99",
                      "GB/s", "triad GB/s", "ratio", "#wrong"},
                     cells);
}

std::string ApplyFooter(const BenchContext& context) {
  return absl::StrCat(
      "\n  size in bytes; min, time (median) and p99 in microseconds for one update; "
      "GB/s: contributions read,\n  parameters and state read and written; triad: a = b "
      "+ s * c, two read, one written, with plain stores;\n  ratio: GB/s / the triad's, "
      "median over rounds\n",
      EnvironmentText({{"load after", context.load_after}}));
}

std::string ApplyJson(const BenchContext& context, const ApplyOptions& options,
                      const ApplySettings& settings, const std::vector<ApplyRow>& rows) {
  nlohmann::ordered_json json = ContextJson(context);
  json["contributions"] = options.contributions;
  json["threads"] = options.threads;
  json["working_set_bytes"] = settings.working_set_bytes;
  json["memory_bytes"] = settings.memory_bytes;
  json["rows"] = nlohmann::ordered_json::array();
  for (const ApplyRow& row : rows) {
    nlohmann::ordered_json item;
    item["size"] = row.row.size_bytes();
    item["count"] = row.row.count;
    item["optimizer"] = row.row.optimizer;
    item["pieces"] = PieceKindName(row.row.pieces);
    item["buckets"] = row.row.buckets;
    item["moved_bytes"] = MovedBytes(row.row);
    item["time_us"] = {
        {"min", row.min_us}, {"median", row.median_us}, {"p99", row.p99_us}};
    item["gb_per_s"] = row.speed;
    item["triad_gb_per_s"] = row.triad_speed;
    item["ratio"] = row.ratio;
    item["wrong"] = row.wrong;
    json["rows"].push_back(std::move(item));
  }
  return json.dump(2) + "\n";
}

}  // namespace psring
