#include "experiments/probe/probe_report.h"

#include <algorithm>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "absl/time/time.h"
#include "experiments/text.h"
#include "nlohmann/json.hpp"

namespace psring {
namespace {

using Json = nlohmann::ordered_json;

std::string Milliseconds(double seconds) {
  return absl::StrFormat("%.3f", seconds * 1e3);
}

std::string Mbit(double bit_s) { return absl::StrFormat("%.6g", bit_s / 1e6); }

std::string OfLine(double bytes_s, int64_t bit_s) {
  if (bit_s == 0) return "-";
  return absl::StrFormat("%.1f %%", 100 * bytes_s * 8 / static_cast<double>(bit_s));
}

std::string LinkTable(const std::vector<ProbedLink>& links) {
  std::vector<std::vector<std::string>> rows;
  std::string notes;
  for (const ProbedLink& probed : links) {
    const LinkKind& kind = probed.link.kind;
    std::string name = probed.link.host;
    if (probed.link.alike > 1) absl::StrAppend(&name, " (", probed.link.alike, " alike)");
    const auto line = [&](int64_t bit_s) {
      return kind.loopback() ? "-" : Mbit(static_cast<double>(bit_s));
    };
    rows.push_back({name, line(kind.send_bit_s), line(kind.receive_bit_s),
                    absl::StrFormat("%.1f", absl::ToDoubleMicroseconds(probed.latency)),
                    absl::StrFormat("%.1f", probed.out_bytes_s * 8e-6),
                    absl::StrFormat("%.1f", probed.in_bytes_s * 8e-6),
                    OfLine(probed.out_bytes_s, kind.send_bit_s),
                    OfLine(probed.in_bytes_s, kind.receive_bit_s),
                    absl::StrFormat("%.1f %%", 100 * probed.idle)});
    if (probed.is_void()) {
      absl::StrAppend(&notes, "  void: ", name,
                      ": processors were busy, and may have been the limit; no floor "
                      "follows\n");
    }
    if (kind.loopback()) {
      absl::StrAppend(
          &notes,
          "  note: the experiment has no hosts: this is the loopback interface "
          "of this machine, whose only limit is what two threads exchange; no "
          "floor follows\n");
    }
  }
  return FormatTable({"links", "Mbit/s out", "in", "alpha us", "payload Mbit/s out", "in",
                      "of line out", "in", "idle CPU"},
                     rows) +
         notes;
}

std::string RateTable(const ProbeReport& report) {
  const auto rate = [](double bytes_s) { return absl::StrFormat("%.0f", bytes_s / 1e6); };
  std::vector<std::vector<std::string>> rows = {
      {"a ring's rank adds", rate(report.add_rate)}};
  for (const ArmForecast& arm : report.arms) {
    if (!arm.apply_rate) continue;
    rows.push_back(
        {absl::StrCat(arm.name, ": a server sums and applies"), rate(*arm.apply_rate)});
  }
  return FormatTable({"one processor", "MB/s of gradients"}, rows);
}

std::string ForecastTable(const ProbeReport& report) {
  std::vector<std::vector<std::string>> rows;
  for (const ArmForecast& arm : report.arms) {
    const auto cost = [&](double seconds) {
      return arm.cost.ok() ? Milliseconds(seconds) : "-";
    };
    const ExchangeCost parts = arm.cost.value_or(ExchangeCost());
    rows.push_back({arm.name, arm.floor.ok() ? Milliseconds(arm.floor->seconds) : "-",
                    arm.floor.ok()
                        ? absl::StrCat(arm.floor->host, arm.floor->out ? " out" : " in")
                        : "-",
                    cost(parts.total()), cost(parts.latency), cost(parts.transfer),
                    cost(parts.arithmetic)});
  }
  return FormatTable({"exchange of a step", "floor ms", "set by", "model ms", "= latency",
                      "+ transfer", "+ arithmetic"},
                     rows);
}

}  // namespace

std::string ReportText(const ProbeReport& report) {
  return absl::StrCat(LinkTable(report.links), "\n", RateTable(report), "\n",
                      ForecastTable(report));
}

Json ProbedLinksJson(const std::vector<ProbedLink>& probed) {
  Json json = Json::array();
  for (const ProbedLink& link : probed) {
    const LinkKind& kind = link.link.kind;
    json.push_back({{"host", link.link.host},
                    {"alike", link.link.alike},
                    {"send_bit_s", kind.send_bit_s},
                    {"receive_bit_s", kind.receive_bit_s},
                    {"queue_bytes", kind.queue_bytes},
                    {"burst_bytes", kind.burst_bytes},
                    {"congestion_control", kind.congestion_control},
                    {"latency_us", absl::ToDoubleMicroseconds(link.latency)},
                    {"out_bytes_s", link.out_bytes_s},
                    {"in_bytes_s", link.in_bytes_s},
                    {"idle", link.idle},
                    {"void", link.is_void()}});
  }
  return json;
}

std::string ReportJson(const ProbeReport& report) {
  Json json;
  json["probed_links"] = ProbedLinksJson(report.links);
  json["add_bytes_s"] = report.add_rate;
  json["arms"] = Json::array();
  for (const ArmForecast& arm : report.arms) {
    Json& forecast = json["arms"].emplace_back();
    forecast["name"] = arm.name;
    forecast["apply_bytes_s"] = arm.apply_rate ? Json(*arm.apply_rate) : Json(nullptr);
    forecast["floor_ms"] =
        arm.floor.ok() ? Json(arm.floor->seconds * 1e3) : Json(nullptr);
    forecast["floor_host"] = arm.floor.ok() ? Json(arm.floor->host) : Json(nullptr);
    forecast["floor_direction"] =
        arm.floor.ok() ? Json(arm.floor->out ? "out" : "in") : Json(nullptr);
    forecast["model_ms"] = arm.cost.ok()
                               ? Json{{"latency", arm.cost->latency * 1e3},
                                      {"transfer", arm.cost->transfer * 1e3},
                                      {"arithmetic", arm.cost->arithmetic * 1e3},
                                      {"total", arm.cost->total() * 1e3}}
                               : Json(nullptr);
  }
  return json.dump(2) + "\n";
}

}  // namespace psring
