#include "experiments/traffic_audit.h"

#include "absl/strings/str_cat.h"
#include "common/job_plan.h"
#include "experiments/arm_mode.h"
#include "experiments/traffic_formula.h"

namespace psring {

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
  }
  return {.verdict = Verdict::kPass,
          .why = "payload bytes equal the formula at every endpoint, in both directions"};
}

}  // namespace psring
