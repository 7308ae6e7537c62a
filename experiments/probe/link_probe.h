// Measures links: real sockets on real links.
#ifndef PSRING_EXPERIMENTS_PROBE_LINK_PROBE_H_
#define PSRING_EXPERIMENTS_PROBE_LINK_PROBE_H_

#include <ostream>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/time/time.h"
#include "experiments/probe/probed_link.h"

namespace psring {

struct ProbeTimes {
  absl::Duration pings = absl::Milliseconds(200);
  // Until both directions have left slow start, and no bucket of tokens is full.
  absl::Duration warm_up = absl::Milliseconds(400);
  absl::Duration measured = absl::Milliseconds(800);
};

// Between a host whose only link is this one and a partner without a limit, alone in a
// network made for it, so that nothing else is in the way: messages of one byte to and
// fro, then both directions at once over eight connections, of which each carries both. A
// link between racks is probed between two hosts without limits; the loopback interface
// in the network of the caller, who otherwise has entered the process's private one and
// has no HostNetwork.
//
// Blocks for about the sum of the times. Nothing is left behind. Errors name the link;
// DeadlineExceeded: nothing came for 10 s.
absl::StatusOr<ProbedLink> ProbeLink(const LinkToProbe& link,
                                     const ProbeTimes& times = {});

// One after the other; a line for each goes to `progress`.
absl::StatusOr<std::vector<ProbedLink>> ProbeLinks(const std::vector<LinkToProbe>& links,
                                                   std::ostream* progress);

}  // namespace psring

#endif  // PSRING_EXPERIMENTS_PROBE_LINK_PROBE_H_
