// The settings of emulated hosts: what they must satisfy, defaults, and a description.
#ifndef PSRING_EXPERIMENTS_HOSTS_HOST_SETTINGS_H_
#define PSRING_EXPERIMENTS_HOSTS_HOST_SETTINGS_H_

#include <cstdint>
#include <string>

#include "absl/status/status.h"
#include "absl/time/time.h"
#include "experiments/config_text.h"
#include "proto/experiment.pb.h"

namespace psring {

// The kernel's bridges have no more ports, and one may lead to the other rack.
inline constexpr int64_t kMostHosts = 1000;

// OK, or the first thing that is wrong with the settings as written at `path`
// ("cluster.hosts"), before defaults; `origins` tells where that stands. `workers` and
// `servers` are the most that an arm on these hosts has; that no arm has too many servers
// for colocated_servers is not checked here. `stall` is after how long without progress a
// process is taken for stalled.
absl::Status CheckHosts(const Hosts& hosts, int64_t workers, int64_t servers,
                        absl::Duration stall, const std::string& path,
                        const FieldOrigins& origins);

// The defaults that proto/experiment.proto states, of checked settings.
void FillHostDefaults(Hosts* hosts);

// "reno", "cubic", "bbr": as the kernel calls it.
std::string CongestionControlName(const Hosts& hosts);

// "links of 200 Mbit/s (server 0: sends 400, receives 100), queues of 262,144 bytes,
// bursts of 32,768 bytes, reno, server k on the host of worker k, 100 Mbit/s between two
// racks, 5 ms delay of each link (worker 1: 20 ms), added by psring's transports". Of
// complete settings.
std::string DescribeHosts(const Hosts& hosts);

}  // namespace psring

#endif  // PSRING_EXPERIMENTS_HOSTS_HOST_SETTINGS_H_
