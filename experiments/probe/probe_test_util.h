// Arms and measured links for tests.
#ifndef PSRING_EXPERIMENTS_PROBE_PROBE_TEST_UTIL_H_
#define PSRING_EXPERIMENTS_PROBE_PROBE_TEST_UTIL_H_

#include <string>

#include "absl/time/time.h"
#include "common/job_plan.h"
#include "common/layout.h"
#include "experiments/probe/probed_link.h"
#include "proto/coordinator.pb.h"

namespace psring {

// Two buckets, of 800 bytes and then 2,400; hosts with links of 100 Mbit/s.
inline JobSpec ProbeSpec(int workers, int servers) {
  JobSpec spec;
  spec.set_workers(workers);
  spec.set_servers(servers);
  spec.set_steps(2);
  if (servers > 0) {
    spec.mutable_arm()->mutable_parameter_server()->mutable_sync();
  } else {
    spec.mutable_arm()->mutable_ring()->set_algorithm(RingMode::RING);
  }
  Experiment& experiment = *spec.mutable_experiment();
  experiment.mutable_buckets()->set_cap_bytes(2400);
  experiment.mutable_buckets()->set_first_cap_bytes(800);
  Hosts& hosts = *experiment.mutable_cluster()->mutable_hosts();
  hosts.set_link_mbit_s(100);
  hosts.set_queue_bytes(300'000);
  hosts.set_burst_bytes(40'000);
  ParameterLayout layout;
  layout.Add("weight", {600});
  layout.Add("bias", {200});
  DescribeLayout(layout, &spec);
  return spec;
}

inline Hosts& HostsOfProbe(JobSpec* spec) {
  return *spec->mutable_experiment()->mutable_cluster()->mutable_hosts();
}

inline ProbedLink Measured(const LinkKind& kind, double out_bytes_s, double in_bytes_s) {
  return {.link = {.kind = kind, .host = "worker 0"},
          .latency = absl::Milliseconds(10),
          .out_bytes_s = out_bytes_s,
          .in_bytes_s = in_bytes_s,
          .idle = 0.5};
}

// Of the link of worker 0.
inline LinkKind KindOfProbe(const JobSpec& spec) {
  const HostPlan plan = PlanHosts(spec);
  return KindOfHost(plan, plan.hosts[0]);
}

}  // namespace psring

#endif  // PSRING_EXPERIMENTS_PROBE_PROBE_TEST_UTIL_H_
