#include "experiments/traffic_audit.h"

#include "absl/strings/str_cat.h"
#include "common/job_plan.h"
#include "experiments/arm_mode.h"
#include "experiments/traffic_formula.h"

namespace psring {
namespace {

// Ethernet 14, IPv4 20, TCP 20 and its timestamps 12.
constexpr int64_t kHeaderBytes = 66;

std::optional<LinkAudit> AuditOf(const EndpointTraffic& endpoint, bool out,
                                 const TrafficRecord& counted,
                                 const HostsReading& reading) {
  for (const LinkReading& link : reading.links) {
    if (link.host != endpoint.name || link.out != out) continue;
    LinkAudit audit{.kernel = link.bytes,
                    .packets = link.packets,
                    .payload = out ? endpoint.payload_out : endpoint.payload_in,
                    .other_payload = out ? endpoint.initial_out + endpoint.snapshot_out
                                         : endpoint.initial_in + endpoint.snapshot_in,
                    .headers = kHeaderBytes * link.packets,
                    .resent = link.resent,
                    .dropped = link.dropped};
    const int64_t payload = audit.payload + audit.other_payload;
    if (out ? counted.has_wire_out() : counted.has_wire_in()) {
      audit.framing = (out ? counted.wire_out() : counted.wire_in()) - payload;
    }
    audit.rest = audit.kernel - payload - audit.framing.value_or(0) - audit.headers;
    return audit;
  }
  return std::nullopt;
}

// What is wrong, or nothing.
std::string Lacks(const std::string& name, const std::optional<LinkAudit>& link,
                  const char* direction) {
  if (!link || link->kernel >= link->payload + link->other_payload) return "";
  return absl::StrCat(name, " counts ", link->payload + link->other_payload, " bytes ",
                      direction, ", more than the ", link->kernel,
                      " that its link has carried");
}

}  // namespace

std::vector<EndpointTraffic> TrafficOf(const JobSpec& spec, const ArmRecords& records) {
  const bool lockstep = InLockstep(spec);
  std::vector<EndpointTraffic> endpoints;
  for (const EndpointFormula& formula : StepTraffic(spec, PlanJob(spec))) {
    // Workers come first, in rank order.
    const size_t index = endpoints.size();
    const bool own_steps = !lockstep && formula.role == "worker";
    EndpointTraffic endpoint;
    endpoint.name = formula.name;
    endpoint.role = formula.role;
    endpoint.steps = spec.steps();
    if (own_steps) {
      endpoint.steps = index < records.steps.size()
                           ? static_cast<int64_t>(records.steps[index].size())
                           : 0;
    }
    endpoint.formula_out = formula.out * endpoint.steps;
    endpoint.formula_in = formula.in * endpoint.steps;
    if (const auto it = records.traffic.find(formula.name); it != records.traffic.end()) {
      const TrafficRecord& traffic = it->second;
      endpoint.payload_out = traffic.payload_out();
      endpoint.payload_in = traffic.payload_in();
      endpoint.initial_out = traffic.initial_out();
      endpoint.initial_in = traffic.initial_in();
      endpoint.snapshot_out = traffic.snapshot_out();
      endpoint.snapshot_in = traffic.snapshot_in();
      if (traffic.has_awaiting_bytes_ns()) {
        endpoint.awaiting_bytes_seconds =
            static_cast<double>(traffic.awaiting_bytes_ns()) / 1e9;
      }
      if (traffic.has_awaiting_room_ns()) {
        endpoint.awaiting_room_seconds =
            static_cast<double>(traffic.awaiting_room_ns()) / 1e9;
      }
      if (traffic.has_retransmissions()) {
        endpoint.retransmissions = traffic.retransmissions();
      }
      if (!records.readings.empty()) {
        const HostsReading& last = records.readings.back();
        endpoint.link_out = AuditOf(endpoint, /*out=*/true, traffic, last);
        endpoint.link_in = AuditOf(endpoint, /*out=*/false, traffic, last);
      }
    }
    endpoints.push_back(endpoint);
  }
  return endpoints;
}

Certificate CertifyTraffic(const JobSpec& spec, const ArmRecords& records,
                           const std::vector<EndpointTraffic>& endpoints) {
  if (spec.arm().has_local()) {
    return {.verdict = Verdict::kNotApplicable, .why = "one process"};
  }
  for (const EndpointTraffic& endpoint : endpoints) {
    if (!records.traffic.contains(endpoint.name)) {
      return {.verdict = Verdict::kFail,
              .why = absl::StrCat(endpoint.name, " did not report its traffic")};
    }
    if (endpoint.payload_out != endpoint.formula_out ||
        endpoint.payload_in != endpoint.formula_in) {
      return {.verdict = Verdict::kFail,
              .why = absl::StrCat(endpoint.name, " sent ", endpoint.payload_out,
                                  " bytes where the formula says ", endpoint.formula_out,
                                  " and received ", endpoint.payload_in,
                                  " where it says ", endpoint.formula_in)};
    }
    for (const std::string& lack : {Lacks(endpoint.name, endpoint.link_out, "out"),
                                    Lacks(endpoint.name, endpoint.link_in, "in")}) {
      if (!lack.empty()) return {.verdict = Verdict::kFail, .why = lack};
    }
  }
  return {.verdict = Verdict::kPass,
          .why = "payload bytes equal the formula at every endpoint, in both directions"};
}

}  // namespace psring
