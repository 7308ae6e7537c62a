// How much of its links an arm on emulated hosts has used, and which one it used most.
// Pure.
#ifndef PSRING_EXPERIMENTS_HOSTS_LINK_USAGE_H_
#define PSRING_EXPERIMENTS_HOSTS_LINK_USAGE_H_

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "experiments/arm_records.h"
#include "experiments/probe/step_floor.h"
#include "experiments/traffic_audit.h"
#include "proto/coordinator.pb.h"

namespace psring {

// One direction of one link.
struct LinkUse {
  std::string host;
  bool out = false;
  int64_t bit_s = 0;
  // Frames on the link that the steps caused: the kernel's count, without the share that
  // the first distribution of parameters and snapshots have in the payload on it; of a
  // link between racks, which is no host's own, in that of all hosts: an estimate.
  double bytes = 0;
  // The link's time for these bytes at its speed, as a share of the time in which
  // gradients or parameters were on their way anywhere, and of the time of the steps.
  double utilisation = 0;
  double share_of_steps = 0;
  int64_t dropped = 0;        // Over the whole run.
  int64_t backlog_bytes = 0;  // The longest queue of all readings.
};

struct LinkUsage {
  std::vector<LinkUse> links;
  int busiest = 0;  // The index of the link with the highest utilisation.
  // Bytes, in or out, the larger, of the busiest host, divided by their mean over the
  // workers' hosts.
  double hot_spot_factor = 0;
  std::string hot_host = {};  // That host.
  // From the first bucket's launch to the last one's end, without the time in which no
  // bucket of any worker was on its way.
  double moving_seconds = 0;
  // The least time of a step's exchange on such links, and how many times as long one was
  // on its way: moving_seconds per step over it. None where the links were not probed, or
  // their probe is void; `no_floor` says why.
  std::optional<StepFloor> floor = std::nullopt;
  double over_floor = 0;
  std::string no_floor = {};
  // Of the intervals between two readings in which the busiest link has carried
  // something: how many, how long all together, the share of the processors that had
  // nothing to do in them, and the highest utilisation of the link in one of them.
  int intervals_in_use = 0;
  double seconds_in_use = 0;
  double idle_processors = 0;
  double peak_utilisation = 0;
};

// None where the arm had no hosts, or no bytes moved. `endpoints` are those of TrafficOf.
std::optional<LinkUsage> LinkUsageOf(const JobSpec& spec, const ArmRecords& records,
                                     const std::vector<EndpointTraffic>& endpoints);

}  // namespace psring

#endif  // PSRING_EXPERIMENTS_HOSTS_LINK_USAGE_H_
