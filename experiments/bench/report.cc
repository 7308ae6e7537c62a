#include "experiments/bench/report.h"

#include <cstdint>
#include <optional>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "absl/strings/str_join.h"
#include "experiments/text.h"

namespace psring {
namespace {

constexpr int64_t kFloatBytes = sizeof(float);

std::string NumberOr(const std::optional<int64_t>& number, const char* none) {
  return number ? absl::StrCat(*number) : none;
}

}  // namespace

std::string Significant(double value) {
  const int decimals = value < 10 ? 2 : value < 100 ? 1 : 0;
  return absl::StrFormat("%.*f", decimals, value);
}

std::string BenchHeader(const BenchContext& context) {
  Environment environment = context.environment;
  environment.emplace_back("load before", context.load_before);
  if (context.ranks > 0) environment.emplace_back("ranks", absl::StrCat(context.ranks));
  return absl::StrCat(context.command, "\n", EnvironmentText(environment));
}

std::string BenchTable(const std::vector<BenchRow>& rows) {
  std::vector<std::vector<std::string>> cells;
  for (const BenchRow& row : rows) {
    cells.push_back({row.contestant.peer, WithThousands(row.size_bytes),
                     WithThousands(row.size_bytes / kFloatBytes), "float",
                     row.contestant.algorithm, row.contestant.transport,
                     Significant(row.min_us), Significant(row.median_us),
                     Significant(row.p99_us), absl::StrFormat("%.3f", row.algbw),
                     absl::StrFormat("%.3f", row.busbw), NumberOr(row.wrong, "N/A"),
                     row.ratio ? absl::StrFormat("%.2f", *row.ratio) : ""});
  }
  return FormatTable({"peer", "size", "count", "type", "algorithm", "transport", "min",
                      "time", "p99", "algbw", "busbw", "#wrong", "ratio"},
                     cells);
}

std::string BenchFooter(const BenchContext& context) {
  return absl::StrCat(
      "\n  size in bytes; min, time (median) and p99 in microseconds, of the slowest "
      "rank; "
      "algbw and busbw in GB/s;\n  ratio: this row's time / that of psring's first over "
      "the same transport, median over rounds\n",
      EnvironmentText({{"load after", context.load_after}}));
}

nlohmann::ordered_json ContextJson(const BenchContext& context) {
  nlohmann::ordered_json json;
  json["command"] = context.command;
  if (context.ranks > 0) json["ranks"] = context.ranks;
  for (const auto& [name, value] : context.environment) json["environment"][name] = value;
  json["load_before"] = context.load_before;
  json["load_after"] = context.load_after;
  return json;
}

std::string BenchJson(const BenchContext& context, const std::vector<BenchRow>& rows) {
  nlohmann::ordered_json json = ContextJson(context);
  json["rows"] = nlohmann::ordered_json::array();
  for (const BenchRow& row : rows) {
    nlohmann::ordered_json item;
    item["size"] = row.size_bytes;
    item["count"] = row.size_bytes / kFloatBytes;
    item["type"] = "float";
    item["algorithm"] = row.contestant.algorithm;
    item["transport"] = row.contestant.transport;
    item["peer"] = row.contestant.peer;
    item["time_us"] = {
        {"min", row.min_us}, {"median", row.median_us}, {"p99", row.p99_us}};
    item["algbw"] = row.algbw;
    item["busbw"] = row.busbw;
    item["wrong"] = row.wrong ? nlohmann::ordered_json(*row.wrong) : nullptr;
    item["ratio"] = row.ratio ? nlohmann::ordered_json(*row.ratio) : nullptr;
    json["rows"].push_back(std::move(item));
  }
  return json.dump(2) + "\n";
}

std::string BenchCsv(const std::vector<BenchRow>& rows) {
  std::string csv =
      "size,count,type,algorithm,transport,peer,min_us,median_us,p99_us,algbw,busbw,"
      "wrong,ratio\n";
  for (const BenchRow& row : rows) {
    absl::StrAppend(
        &csv,
        absl::StrJoin(
            {absl::StrCat(row.size_bytes), absl::StrCat(row.size_bytes / kFloatBytes),
             std::string("float"), row.contestant.algorithm, row.contestant.transport,
             row.contestant.peer, absl::StrFormat("%.3f", row.min_us),
             absl::StrFormat("%.3f", row.median_us), absl::StrFormat("%.3f", row.p99_us),
             absl::StrFormat("%.6f", row.algbw), absl::StrFormat("%.6f", row.busbw),
             NumberOr(row.wrong, ""),
             row.ratio ? absl::StrFormat("%.4f", *row.ratio) : ""},
            ","),
        "\n");
  }
  return csv;
}

}  // namespace psring
