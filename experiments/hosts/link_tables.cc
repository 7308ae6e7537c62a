#include "experiments/hosts/link_tables.h"

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <optional>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "absl/strings/str_join.h"
#include "experiments/hosts/link_usage.h"
#include "experiments/text.h"
#include "experiments/traffic_audit.h"

namespace psring {
namespace {

using Row = std::vector<std::string>;

// "worker 1 + server 1". Links between racks are nobody's.
std::string ProcessesOn(const std::string& host,
                        const std::vector<EndpointTraffic>& endpoints) {
  std::vector<std::string> names;
  for (const EndpointTraffic& endpoint : endpoints) {
    if (endpoint.host == host) names.push_back(endpoint.name);
  }
  return names.empty() ? host : absl::StrJoin(names, " + ");
}

// Both directions of the link of the host that is called as this process, if one is; not
// that on which nothing belongs and nothing was.
void AddRows(const ArmResult& arm, const EndpointTraffic& endpoint,
             std::vector<Row>* rows) {
  const auto add = [&](const char* direction, const std::optional<LinkAudit>& link) {
    if (!link || (link->formula == 0 && link->kernel == 0)) return;
    rows->push_back(
        {absl::StrCat(arm.name, " / ", ProcessesOn(endpoint.host, arm.endpoints), " ",
                      direction),
         WithThousands(link->formula), WithThousands(link->payload),
         WithThousands(link->other_payload),
         link->framing ? WithThousands(*link->framing) : "in rest",
         WithThousands(link->headers), WithThousands(link->rest),
         WithThousands(link->kernel), WithThousands(link->packets),
         WithThousands(link->resent), WithThousands(link->dropped)});
  };
  add("out", endpoint.link_out);
  add("in", endpoint.link_in);
}

int64_t Formula(const std::optional<LinkAudit>& link) { return link ? link->formula : 0; }

// The one with the busiest link (a link between racks is nobody's: then the first one),
// and the first worker that should have carried something else, if there is one.
std::vector<EndpointTraffic> Telling(const ArmResult& arm) {
  if (arm.endpoints.empty()) return {};
  auto busiest = arm.endpoints.begin();
  if (arm.link_usage) {
    const std::string& host = arm.link_usage->links[arm.link_usage->busiest].host;
    const auto found =
        std::find_if(arm.endpoints.begin(), arm.endpoints.end(),
                     [&](const auto& endpoint) { return endpoint.name == host; });
    if (found != arm.endpoints.end()) busiest = found;
  }
  std::vector<EndpointTraffic> telling = {*busiest};
  const auto other = std::find_if(
      arm.endpoints.begin(), arm.endpoints.end(), [&](const EndpointTraffic& endpoint) {
        return endpoint.role == "worker" &&
               (Formula(endpoint.link_out) != Formula(busiest->link_out) ||
                Formula(endpoint.link_in) != Formula(busiest->link_in));
      });
  if (other != arm.endpoints.end()) telling.push_back(*other);
  return telling;
}

}  // namespace

std::string LinkAuditTable(const std::vector<ArmRuns>& arms) {
  std::vector<Row> all;
  std::vector<Row> telling;
  for (const ArmRuns& runs : arms) {
    const ArmResult& arm = runs.first();
    if (!arm.error.empty()) continue;
    for (const EndpointTraffic& endpoint : arm.endpoints) {
      AddRows(arm, endpoint, &all);
    }
    for (const EndpointTraffic& endpoint : Telling(arm)) {
      AddRows(arm, endpoint, &telling);
    }
  }
  if (all.empty()) return "";
  const bool whole = all.size() <= kMostRows || telling.size() == all.size();
  const std::string table = FormatTable(
      {"bytes on each link, whole run", "formula", "payload", "+ start, snapshots",
       "+ framing", "+ headers", "+ rest", "= kernel", "packets", "resent", "dropped"},
      whole ? all : telling);
  if (whole) return table;
  return absl::StrCat(table, "  the busiest link of each arm, and a worker's; all ",
                      all.size(), " rows are in summary.json, the readings in run.db\n");
}

std::string HotSpotTable(const std::vector<ArmRuns>& arms) {
  std::vector<Row> rows;
  std::string notes;
  for (const ArmRuns& runs : arms) {
    const ArmResult& arm = runs.first();
    if (!arm.error.empty() || !arm.link_usage) continue;
    const LinkUsage& usage = *arm.link_usage;
    const LinkUse& link = usage.links[usage.busiest];
    const double per_step = link.bytes / static_cast<double>(arm.steps);
    rows.push_back(
        {absl::StrCat(arm.name, " / ", ProcessesOn(link.host, arm.endpoints),
                      link.out ? " out" : " in"),
         absl::StrFormat("%.6g", static_cast<double>(link.bit_s) / 1e6),
         WithThousands(std::llround(per_step)), RoughPercent(link.utilisation),
         RoughPercent(link.share_of_steps),
         absl::StrFormat("%.2f", usage.hot_spot_factor),
         usage.floor ? absl::StrFormat("%.3f", usage.floor->seconds * 1e3) : "-",
         usage.floor ? absl::StrFormat("%.3f", usage.over_floor) : "-",
         WithThousands(link.backlog_bytes), WithThousands(link.dropped),
         RoughPercent(usage.idle_processors)});
    if (!usage.floor) {
      absl::StrAppend(&notes, "  note: ", arm.name, ": no floor: ", usage.no_floor, "\n");
    }
    if (arm.validity && arm.validity->kind != Validity::Kind::kValid) {
      absl::StrAppendFormat(
          &notes, "  %s: %s: %s\n",
          arm.is_void() ? "void" : "cannot be told whether links set its times", arm.name,
          arm.validity->why);
    }
  }
  if (rows.empty()) return "";
  return FormatTable({"busiest link", "Mbit/s", "bytes/step", "of moving time", "of step",
                      "hot-spot factor", "floor ms", "over floor", "longest queue",
                      "dropped", "idle CPU"},
                     rows) +
         notes;
}

}  // namespace psring
