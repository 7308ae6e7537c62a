// Which process runs on which emulated host, how the hosts are connected, and the
// commands that connect them. Pure.
#ifndef PSRING_EXPERIMENTS_HOSTS_HOST_PLAN_H_
#define PSRING_EXPERIMENTS_HOSTS_HOST_PLAN_H_

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "absl/strings/string_view.h"
#include "proto/coordinator.pb.h"

namespace psring {

struct PlannedHost {
  std::string name;  // Of its first process: "worker 1", "server 0".
  std::vector<std::string> processes;
  int rack = 0;
  int64_t send_bit_s = 0;  // 0: no limit.
  int64_t receive_bit_s = 0;
  std::string data_address;     // What other hosts reach it at, over its shaped link.
  std::string control_address;  // What it reaches the coordinator from.
};

// The two addresses of the host of this index.
std::string DataAddress(int host);
std::string ControlAddress(int host);

struct HostPlan {
  // Each process has a host of its own: workers in rank order, then servers. Or servers
  // are on the hosts of the workers of the same ranks.
  std::vector<PlannedHost> hosts;
  int64_t queue_bytes = 0;
  int64_t burst_bytes = 0;
  std::string congestion_control;
  // With two racks: of the link between them, in each direction.
  std::optional<int64_t> racks_bit_s;

  // Where the coordinator listens.
  static constexpr char kCoordinatorAddress[] = "10.78.0.1";

  int racks() const { return racks_bit_s ? 2 : 1; }
  // The index in `hosts` of the process's; the plan has it.
  int HostOf(absl::string_view process) const;
};

// Whether the job's processes have hosts.
bool OnHosts(const JobSpec& spec);
// Of a job that has hosts, with defaults filled in.
HostPlan PlanHosts(const JobSpec& spec);

// One direction of one link. A rack's own link leads to the other rack.
struct LinkDirection {
  std::string host;  // "worker 1", or "rack 0".
  bool out = false;  // From the host; else to it.
  int64_t bit_s = 0;

  const char* direction() const { return out ? "out" : "in"; }
};
// All of the plan, each host's `out` before its `in`; of the link between racks, rack
// 0's.
std::vector<LinkDirection> LinksOf(const HostPlan& plan);

// Interfaces as they are called in a host's namespace.
inline constexpr char kDataInterface[] = "data";
inline constexpr char kControlInterface[] = "control";
// The same in the namespace of the switches: the other end of a host's data link, which
// shapes what the host receives, and both ends of the link between racks.
std::string SwitchInterface(int host);
std::string RackInterface(int rack);
// Whatever is made in the namespace of the switches is of this group of interfaces, so
// that it can be deleted at once.
inline constexpr int kInterfaceGroup = 77;

// The input of `ip -batch` and then of `tc -batch` in one namespace.
struct NamespaceCommands {
  std::string ip;
  std::string tc;
};
// In the namespace of the switches, the launcher's. `namespaces` are paths of the hosts'
// namespaces; the hosts' ends of all links are born there.
NamespaceCommands SwitchCommands(const HostPlan& plan,
                                 const std::vector<std::string>& namespaces);
// In the host's own namespace, after those.
NamespaceCommands HostCommands(const HostPlan& plan, int host);

}  // namespace psring

#endif  // PSRING_EXPERIMENTS_HOSTS_HOST_PLAN_H_
