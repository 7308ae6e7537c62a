#include "experiments/traffic_audit.h"

#include <algorithm>
#include <iterator>

#include "absl/strings/str_cat.h"
#include "common/job_plan.h"
#include "experiments/arm_mode.h"
#include "experiments/hosts/host_plan.h"
#include "experiments/traffic_formula.h"

namespace psring {
namespace {

// Ethernet 14, IPv4 20, TCP 20 and its timestamps 12.
constexpr int64_t kHeaderBytes = 66;

// Of one direction of the host's link; none where it was not read, or a process on it has
// not reported.
std::optional<LinkAudit> AuditOf(const std::string& host, bool out,
                                 const std::vector<EndpointTraffic>& endpoints,
                                 const ArmRecords& records) {
  if (records.readings.empty()) return std::nullopt;
  const std::vector<LinkReading>& links = records.readings.back().links;
  const auto link = std::find_if(
      links.begin(), links.end(),
      [&](const LinkReading& read) { return read.host == host && read.out == out; });
  if (link == links.end()) return std::nullopt;
  LinkAudit audit{.kernel = link->bytes,
                  .packets = link->packets,
                  .headers = kHeaderBytes * link->packets,
                  .resent = link->resent,
                  .dropped = link->dropped};
  int64_t wire = 0;
  bool wire_known = true;
  for (const EndpointTraffic& endpoint : endpoints) {
    if (endpoint.host != host) continue;
    const auto reported = records.traffic.find(endpoint.name);
    if (reported == records.traffic.end()) return std::nullopt;
    const TrafficRecord& counted = reported->second;
    const LinkPayload payload = LinkPayloadOf(endpoint, out);
    audit.formula += payload.formula;
    audit.payload += payload.steps;
    audit.other_payload += payload.other;
    wire += out ? counted.wire_out() : counted.wire_in();
    wire_known &= out ? counted.has_wire_out() : counted.has_wire_in();
  }
  const int64_t payload = audit.payload + audit.other_payload;
  if (wire_known) audit.framing = wire - payload;
  audit.rest = audit.kernel - payload - audit.framing.value_or(0) - audit.headers;
  return audit;
}

// What is wrong, or nothing.
std::string Lacks(const std::string& name, const std::optional<LinkAudit>& link,
                  const char* direction) {
  if (!link || link->kernel >= link->payload + link->other_payload) return "";
  return absl::StrCat("on the host of ", name, ", ", link->payload + link->other_payload,
                      " bytes are counted ", direction, ", more than the ", link->kernel,
                      " that its link has carried");
}

// What is wrong with the operations of this worker's steps, or nothing. Bytes may be
// right over all steps, or by chance, where they are not.
std::string WrongOperations(const EndpointTraffic& worker,
                            const std::vector<StepRecord>& steps) {
  for (const StepRecord& step : steps) {
    if (step.operations() == worker.formula_operations) continue;
    return absl::StrCat(worker.name, " took ", step.operations(), " operations in step ",
                        step.step(), " where the formula says ",
                        worker.formula_operations);
  }
  return "";
}

}  // namespace

std::optional<double> ServerImbalanceOf(const std::vector<EndpointTraffic>& endpoints) {
  int64_t servers = 0;
  int64_t most = 0;
  int64_t all = 0;
  for (const EndpointTraffic& endpoint : endpoints) {
    if (endpoint.role != "server") continue;
    ++servers;
    most = std::max(most, endpoint.payload_out);
    all += endpoint.payload_out;
  }
  if (all == 0) return std::nullopt;
  return static_cast<double>(most) * static_cast<double>(servers) /
         static_cast<double>(all);
}

LinkPayload LinkPayloadOf(const EndpointTraffic& endpoint, bool out) {
  if (out) {
    return {
        .formula = endpoint.formula_out - endpoint.local_formula_out,
        .steps = endpoint.payload_out - endpoint.local_payload_out,
        .other = endpoint.initial_out + endpoint.snapshot_out - endpoint.local_other_out};
  }
  return {.formula = endpoint.formula_in - endpoint.local_formula_in,
          .steps = endpoint.payload_in - endpoint.local_payload_in,
          .other = endpoint.initial_in + endpoint.snapshot_in - endpoint.local_other_in};
}

std::vector<EndpointTraffic> TrafficOf(const JobSpec& spec, const ArmRecords& records) {
  // That this worker has made, and a server has counted of it.
  const auto steps_of = [&, lockstep = InLockstep(spec)](size_t rank) -> int64_t {
    if (lockstep) return spec.steps() - FirstStepOf(spec, static_cast<int>(rank));
    return rank < records.steps.size() ? std::ssize(records.steps[rank]) : 0;
  };
  std::optional<HostPlan> hosts;
  if (OnHosts(spec)) hosts = PlanHosts(spec);
  std::vector<EndpointTraffic> endpoints;
  for (const EndpointFormula& formula : StepTraffic(spec, PlanJob(spec))) {
    // Workers come first, in rank order.
    const size_t index = endpoints.size();
    const bool worker = formula.role == "worker";
    const size_t rank = worker ? index : index - static_cast<size_t>(spec.workers());
    EndpointTraffic endpoint;
    endpoint.name = formula.name;
    endpoint.role = formula.role;
    // A server's are its contributions, which need not be a whole number of steps.
    const int64_t contributions = ContributionsToMake(spec);
    const int64_t per_step = worker ? 1 : spec.workers();
    const int64_t exchanges = worker ? steps_of(rank) : contributions;
    endpoint.steps = exchanges / per_step;
    endpoint.formula_out = formula.out / per_step * exchanges;
    endpoint.formula_in = formula.in / per_step * exchanges;
    endpoint.formula_operations = formula.operations;
    // A server shares its host with the worker of the same rank.
    endpoint.local_formula_out = formula.local_out * steps_of(rank);
    endpoint.local_formula_in = formula.local_in * steps_of(rank);
    if (hosts) endpoint.host = hosts->hosts[hosts->HostOf(formula.name)].name;
    if (const auto it = records.traffic.find(formula.name); it != records.traffic.end()) {
      const TrafficRecord& traffic = it->second;
      endpoint.payload_out = traffic.payload_out();
      endpoint.payload_in = traffic.payload_in();
      endpoint.initial_out = traffic.initial_out();
      endpoint.initial_in = traffic.initial_in();
      endpoint.snapshot_out = traffic.snapshot_out();
      endpoint.snapshot_in = traffic.snapshot_in();
      endpoint.local_payload_out = traffic.local_payload_out();
      endpoint.local_payload_in = traffic.local_payload_in();
      endpoint.local_other_out = traffic.local_other_out();
      endpoint.local_other_in = traffic.local_other_in();
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
    }
    endpoints.push_back(endpoint);
  }
  for (EndpointTraffic& endpoint : endpoints) {
    if (endpoint.host != endpoint.name) continue;
    endpoint.link_out = AuditOf(endpoint.host, /*out=*/true, endpoints, records);
    endpoint.link_in = AuditOf(endpoint.host, /*out=*/false, endpoints, records);
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
    if (endpoint.local_payload_out != endpoint.local_formula_out ||
        endpoint.local_payload_in != endpoint.local_formula_in) {
      return {.verdict = Verdict::kFail,
              .why = absl::StrCat(endpoint.name, " sent ", endpoint.local_payload_out,
                                  " bytes on its host where the formula says ",
                                  endpoint.local_formula_out, " and received ",
                                  endpoint.local_payload_in, " where it says ",
                                  endpoint.local_formula_in)};
    }
  }
  for (size_t rank = 0; rank < records.steps.size() && rank < endpoints.size(); ++rank) {
    const std::string wrong = WrongOperations(endpoints[rank], records.steps[rank]);
    if (!wrong.empty()) return {.verdict = Verdict::kFail, .why = wrong};
  }
  // After all that was counted: a link's payload is that of two processes.
  for (const EndpointTraffic& endpoint : endpoints) {
    for (const std::string& lack : {Lacks(endpoint.name, endpoint.link_out, "out"),
                                    Lacks(endpoint.name, endpoint.link_in, "in")}) {
      if (!lack.empty()) return {.verdict = Verdict::kFail, .why = lack};
    }
  }
  return {.verdict = Verdict::kPass,
          .why =
              "payload bytes equal the formula at every endpoint, in both directions, "
              "and operations in every step"};
}

}  // namespace psring
