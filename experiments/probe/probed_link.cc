#include "experiments/probe/probed_link.h"

#include <algorithm>
#include <map>
#include <set>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "experiments/hosts/link_reading.h"

namespace psring {
namespace {

// Payload of a full link, as a share of its speed, is at most 0.956 without losses and
// acknowledgements: 1448 of the 1514 bytes of a frame.
constexpr double kFull = 0.94;

}  // namespace

bool MovesOverLinks(const JobSpec& spec) {
  return spec.arm().has_parameter_server() ||
         (spec.arm().has_ring() &&
          spec.arm().ring().transport() != RingMode::SHARED_MEMORY);
}

LinkKind KindOfHost(const HostPlan& plan, const PlannedHost& host) {
  return {.send_bit_s = host.send_bit_s,
          .receive_bit_s = host.receive_bit_s,
          .queue_bytes = plan.queue_bytes,
          .burst_bytes = plan.burst_bytes,
          .congestion_control = plan.congestion_control};
}

LinkKind KindBetweenRacks(const HostPlan& plan) {
  const int64_t bit_s = plan.racks_bit_s.value_or(0);
  return {.send_bit_s = bit_s,
          .receive_bit_s = bit_s,
          .queue_bytes = plan.queue_bytes,
          .burst_bytes = plan.burst_bytes,
          .congestion_control = plan.congestion_control,
          .between_racks = true};
}

std::vector<LinkToProbe> LinksToProbe(const std::vector<JobSpec>& arms) {
  std::vector<LinkToProbe> links;
  std::map<LinkKind, std::set<std::string>> names;
  const auto add = [&](const LinkKind& kind, const std::string& host) {
    if (!names.contains(kind)) links.push_back({.kind = kind, .host = host});
    names[kind].insert(host);
  };
  for (const JobSpec& spec : arms) {
    if (!MovesOverLinks(spec)) continue;
    if (!OnHosts(spec)) {
      add({}, "loopback");
      continue;
    }
    const HostPlan plan = PlanHosts(spec);
    for (const PlannedHost& host : plan.hosts) add(KindOfHost(plan, host), host.name);
    if (plan.racks_bit_s) add(KindBetweenRacks(plan), "rack 0");
  }
  for (LinkToProbe& link : links) link.alike = static_cast<int>(names[link.kind].size());
  return links;
}

bool ProbedLink::is_void() const {
  const auto full = [](double bytes_s, int64_t bit_s) {
    return bytes_s * 8 >= kFull * static_cast<double>(bit_s);
  };
  return !link.kind.loopback() && idle < kIdleEnough &&
         !(full(out_bytes_s, link.kind.send_bit_s) &&
           full(in_bytes_s, link.kind.receive_bit_s));
}

std::string ToString(const ProbedLink& probed) {
  std::string text = probed.link.host;
  if (probed.link.alike > 1) absl::StrAppend(&text, " (", probed.link.alike, " alike)");
  absl::StrAppendFormat(&text, ": %.1f Mbit/s of payload out, %.1f in, latency %.0f us",
                        probed.out_bytes_s * 8e-6, probed.in_bytes_s * 8e-6,
                        absl::ToDoubleMicroseconds(probed.latency));
  if (probed.is_void()) {
    absl::StrAppendFormat(&text,
                          "; void: %.1f %% of processor time was left, so processors may "
                          "have been the limit",
                          100 * probed.idle);
  }
  return text;
}

}  // namespace psring
