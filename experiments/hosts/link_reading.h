// What has been read of all links of emulated hosts at one moment.
#ifndef PSRING_EXPERIMENTS_HOSTS_LINK_READING_H_
#define PSRING_EXPERIMENTS_HOSTS_LINK_READING_H_

#include <cstdint>
#include <string>
#include <vector>

#include "absl/time/time.h"

namespace psring {

// Below this share of idle processors they, and not the links, may have been the limit.
inline constexpr double kIdleEnough = 0.1;

// One direction of one link. Counters start at zero with the run.
struct LinkReading {
  std::string host;  // "worker 1", or "rack 0" for the link to the other rack.
  bool out = false;  // From the host; else to it.
  // Ethernet frames that have left the link's queue, with the headers of every segment.
  int64_t bytes = 0;
  int64_t packets = 0;
  int64_t dropped = 0;        // Packets that the queue had no room for.
  int64_t backlog_bytes = 0;  // That wait in the queue at this moment.
  // The interface's own count, in which a piece that is cut into segments later is one
  // packet with one header.
  int64_t interface_bytes = 0;
  int64_t interface_packets = 0;
  // TCP segments that the host has sent again, in `out`.
  int64_t resent = 0;

  const char* direction() const { return out ? "out" : "in"; }
};

struct HostsReading {
  absl::Time time;
  std::vector<LinkReading> links;
  // Of all processors of the machine, since some moment before.
  absl::Duration idle = absl::ZeroDuration();
  absl::Duration processors = absl::ZeroDuration();
};

}  // namespace psring

#endif  // PSRING_EXPERIMENTS_HOSTS_LINK_READING_H_
