// Kinds of links, and what has been measured of each. Pure.
#ifndef PSRING_EXPERIMENTS_PROBE_PROBED_LINK_H_
#define PSRING_EXPERIMENTS_PROBE_PROBED_LINK_H_

#include <compare>
#include <cstdint>
#include <string>
#include <vector>

#include "absl/time/time.h"
#include "experiments/hosts/host_plan.h"
#include "proto/coordinator.pb.h"

namespace psring {

// Everything in which links differ: those of one kind have one measurement. With nothing
// set it is the loopback interface, which has no speed of its own.
struct LinkKind {
  int64_t send_bit_s = 0;  // From the host; between racks: each way.
  int64_t receive_bit_s = 0;
  int64_t queue_bytes = 0;
  int64_t burst_bytes = 0;
  std::string congestion_control = {};
  bool between_racks = false;

  bool loopback() const { return send_bit_s == 0; }
  friend auto operator<=>(const LinkKind&, const LinkKind&) = default;
};

// Whether the job's processes exchange gradients, and not through shared memory.
bool MovesOverLinks(const JobSpec& spec);

LinkKind KindOfHost(const HostPlan& plan, const PlannedHost& host);
LinkKind KindBetweenRacks(const HostPlan& plan);

// One of a kind, for all of it.
struct LinkToProbe {
  LinkKind kind;
  std::string host = {};  // "worker 0"; "rack 0"; "loopback".
  int alike = 1;          // How many such links there are, it included, by name.
};

// All kinds on which these arms move gradients, in the order in which they come.
std::vector<LinkToProbe> LinksToProbe(const std::vector<JobSpec>& arms);

struct ProbedLink {
  LinkToProbe link;
  // One way, of a message of one byte: half the median of round trips.
  absl::Duration latency = absl::ZeroDuration();
  // Payload in bytes per second, while both directions are busy.
  double out_bytes_s = 0;
  double in_bytes_s = 0;
  // Processor time that was left meanwhile, as a share: by the whole machine, or by the
  // busier of the two threads that probed, whichever is less.
  double idle = 0;

  // Processors, and not the link, may have been the limit: fewer than kIdleEnough were
  // idle, and the link was not full either. The loopback interface has no other limit.
  bool is_void() const;
};

// "worker 0 (5 alike): 190.9 Mbit/s of payload out, 190.8 in, latency 31 us", and where
// the probe is void, that it is.
std::string ToString(const ProbedLink& probed);

}  // namespace psring

#endif  // PSRING_EXPERIMENTS_PROBE_PROBED_LINK_H_
