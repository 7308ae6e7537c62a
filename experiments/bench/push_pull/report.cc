#include "experiments/bench/push_pull/report.h"

#include <cstdint>
#include <optional>
#include <utility>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "common/wire_type.h"
#include "experiments/bench/push_pull/plan.h"
#include "experiments/text.h"
#include "nlohmann/json.hpp"

namespace psring {
namespace {

using Json = nlohmann::ordered_json;

constexpr int64_t kFloatBytes = sizeof(float);

std::string ModeName(const ParameterServerMode& mode) {
  if (mode.has_bounded()) return absl::StrCat("bounded(", mode.bounded().bound(), ")");
  return mode.has_async() ? "async" : "sync";
}

std::string Rate(double value) { return absl::StrFormat("%.3f", value); }
std::string Quotient(double value) { return absl::StrFormat("%.2f", value); }

std::string WantedText(const PushPullRatio& ratio) {
  const auto met = [](bool is) { return is ? "met" : "missed"; };
  if (ratio.most_time) {
    return absl::StrCat("time at most ", Quotient(*ratio.most_time), ": ",
                        met(ratio.time <= *ratio.most_time));
  }
  if (ratio.least_goodput) {
    return absl::StrCat("goodput at least ", Quotient(*ratio.least_goodput), ": ",
                        met(ratio.goodput >= *ratio.least_goodput));
  }
  return "";
}

template <typename Value>
Json ValueOrNull(const std::optional<Value>& value) {
  return value ? Json(*value) : Json(nullptr);
}

}  // namespace

Environment PushPullWork(const PushPullJob& job) {
  return {
      {"workers", absl::StrCat(job.workers())},
      {"servers", absl::StrCat(job.servers())},
      {"mode", absl::StrCat(ModeName(job.mode()), " (psring's; others only echo)")},
      {"placement", absl::StrCat(PlacementNames()[job.mode().placement()], ", ",
                                 job.inventory().empty()
                                     ? "one tensor"
                                     : absl::StrCat("tensors of ", job.inventory()))},
      {"wire", absl::StrCat(WireType(job.wire()).name(), " gradients, fp32 parameters")},
      {"slots", absl::StrCat("at most ", WithThousands(job.slot_bytes()), " bytes")}};
}

std::string PushPullTable(const std::vector<PushPullRow>& rows) {
  std::vector<std::vector<std::string>> cells;
  for (const PushPullRow& row : rows) {
    cells.push_back({row.contestant, WithThousands(row.size_bytes),
                     WithThousands(row.size_bytes / kFloatBytes), "float",
                     Significant(row.min_us), Significant(row.median_us),
                     Significant(row.p99_us), Rate(row.out), Rate(row.in),
                     Rate(row.server_in_and_out), Rate(row.processor_seconds_per_gb),
                     row.wrong ? absl::StrCat(*row.wrong) : "N/A"});
  }
  return FormatTable({"contestant", "size", "count", "type", "min", "time", "p99", "out",
                      "in", "server in+out", "processor", "#wrong"},
                     cells);
}

std::string PushPullRatioTable(const std::vector<PushPullRatio>& ratios) {
  if (ratios.empty()) return "";
  std::vector<std::vector<std::string>> cells;
  for (const PushPullRatio& ratio : ratios) {
    std::vector<std::string> row = {
        absl::StrCat(ratio.contestant, " / ", ratio.reference),
        WithThousands(ratio.size_bytes), Quotient(ratio.time), Quotient(ratio.goodput),
        Quotient(ratio.processor)};
    if (std::string wanted = WantedText(ratio); !wanted.empty()) {
      row.push_back(std::move(wanted));
    }
    cells.push_back(std::move(row));
  }
  return absl::StrCat(
      "\n",
      FormatTable({"ratio", "size", "time", "goodput", "processor", "wanted"}, cells));
}

std::string PushPullFooter(const BenchContext& context) {
  return absl::StrCat(
      "\n  size in bytes; min, time (median) and p99 in microseconds, of the slowest "
      "worker; out and in of a worker,\n  server in+out of a server, in GB/s; processor "
      "in seconds of all processes for each GB that workers push\n  or pull; ratios: "
      "medians over rounds of the quotient in a round\n",
      EnvironmentText({{"load after", context.load_after}}));
}

std::string PushPullJson(const BenchContext& context, const PushPullJob& job,
                         const std::vector<PushPullRow>& rows,
                         const std::vector<PushPullRatio>& ratios) {
  Json json = ContextJson(context);
  json["workers"] = job.workers();
  json["servers"] = job.servers();
  json["mode"] = ModeName(job.mode());
  json["placement"] = PlacementNames()[job.mode().placement()];
  json["inventory"] = job.inventory();
  json["wire"] = WireType(job.wire()).name();
  json["slot_bytes"] = job.slot_bytes();
  json["rows"] = Json::array();
  for (const PushPullRow& row : rows) {
    Json item;
    item["size"] = row.size_bytes;
    item["count"] = row.size_bytes / kFloatBytes;
    item["type"] = "float";
    item["contestant"] = row.contestant;
    item["time_us"] = {
        {"min", row.min_us}, {"median", row.median_us}, {"p99", row.p99_us}};
    item["out"] = row.out;
    item["in"] = row.in;
    item["server_in_and_out"] = row.server_in_and_out;
    item["processor_seconds_per_gb"] = row.processor_seconds_per_gb;
    item["wrong"] = ValueOrNull(row.wrong);
    json["rows"].push_back(std::move(item));
  }
  json["ratios"] = Json::array();
  for (const PushPullRatio& ratio : ratios) {
    Json item;
    item["contestant"] = ratio.contestant;
    item["reference"] = ratio.reference;
    item["size"] = ratio.size_bytes;
    item["time"] = ratio.time;
    item["goodput"] = ratio.goodput;
    item["processor"] = ratio.processor;
    item["most_time"] = ValueOrNull(ratio.most_time);
    item["least_goodput"] = ValueOrNull(ratio.least_goodput);
    json["ratios"].push_back(std::move(item));
  }
  return json.dump(2) + "\n";
}

std::string PushPullCsv(const std::vector<PushPullRow>& rows) {
  std::string csv =
      "size,count,type,contestant,min_us,median_us,p99_us,out,in,server_in_and_out,"
      "processor_seconds_per_gb,wrong\n";
  for (const PushPullRow& row : rows) {
    absl::StrAppendFormat(&csv, "%d,%d,float,%s,%.3f,%.3f,%.3f,%.6f,%.6f,%.6f,%.6f,%s\n",
                          row.size_bytes, row.size_bytes / kFloatBytes, row.contestant,
                          row.min_us, row.median_us, row.p99_us, row.out, row.in,
                          row.server_in_and_out, row.processor_seconds_per_gb,
                          row.wrong ? absl::StrCat(*row.wrong) : "");
  }
  return csv;
}

}  // namespace psring
