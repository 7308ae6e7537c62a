#include "experiments/hosts/link_tables.h"

#include <cmath>
#include <cstdint>
#include <optional>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "experiments/hosts/link_usage.h"
#include "experiments/text.h"
#include "experiments/traffic_audit.h"

namespace psring {
namespace {

std::string Percent(double share) { return absl::StrFormat("%.1f %%", 100 * share); }

}  // namespace

std::string LinkAuditTable(const std::vector<ArmRuns>& arms) {
  std::vector<std::vector<std::string>> rows;
  for (const ArmRuns& runs : arms) {
    const ArmResult& arm = runs.first();
    if (!arm.error.empty()) continue;
    const auto add = [&](const EndpointTraffic& endpoint, const char* direction,
                         int64_t formula, const std::optional<LinkAudit>& link) {
      if (!link) return;
      rows.push_back({absl::StrCat(arm.name, " / ", endpoint.name, " ", direction),
                      WithThousands(formula), WithThousands(link->payload),
                      WithThousands(link->other_payload),
                      link->framing ? WithThousands(*link->framing) : "in rest",
                      WithThousands(link->headers), WithThousands(link->rest),
                      WithThousands(link->kernel), WithThousands(link->packets),
                      WithThousands(link->resent), WithThousands(link->dropped)});
    };
    for (const EndpointTraffic& endpoint : arm.endpoints) {
      add(endpoint, "out", endpoint.formula_out, endpoint.link_out);
      add(endpoint, "in", endpoint.formula_in, endpoint.link_in);
    }
  }
  if (rows.empty()) return "";
  return FormatTable(
      {"bytes on each link, whole run", "formula", "payload", "+ start, snapshots",
       "+ framing", "+ headers", "+ rest", "= kernel", "packets", "resent", "dropped"},
      rows);
}

std::string HotSpotTable(const std::vector<ArmRuns>& arms) {
  std::vector<std::vector<std::string>> rows;
  std::string notes;
  for (const ArmRuns& runs : arms) {
    const ArmResult& arm = runs.first();
    if (!arm.error.empty() || !arm.link_usage) continue;
    const LinkUsage& usage = *arm.link_usage;
    const LinkUse& link = usage.links[usage.busiest];
    const double per_step = link.bytes / static_cast<double>(arm.steps);
    rows.push_back({absl::StrCat(arm.name, " / ", link.host, link.out ? " out" : " in"),
                    absl::StrFormat("%.6g", static_cast<double>(link.bit_s) / 1e6),
                    WithThousands(std::llround(per_step)), Percent(link.utilisation),
                    Percent(link.share_of_steps),
                    absl::StrFormat("%.2f", usage.hot_spot_factor),
                    WithThousands(link.backlog_bytes), WithThousands(link.dropped),
                    Percent(usage.idle_processors)});
    if (usage.idle_processors < kIdleEnough) {
      absl::StrAppend(&notes, "  note: ", arm.name, ": the processors were idle ",
                      Percent(usage.idle_processors),
                      " of the time: they, and not the links, may have set its times\n");
    }
  }
  if (rows.empty()) return "";
  return FormatTable({"busiest link", "Mbit/s", "bytes/step", "of moving time", "of step",
                      "hot-spot factor", "longest queue", "dropped", "idle CPU"},
                     rows) +
         notes;
}

}  // namespace psring
