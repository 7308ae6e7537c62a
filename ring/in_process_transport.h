// Ranks that are threads of one process.
#ifndef PSRING_RING_IN_PROCESS_TRANSPORT_H_
#define PSRING_RING_IN_PROCESS_TRANSPORT_H_

#include <cstddef>
#include <memory>
#include <vector>

#include "ring/transport.h"

namespace psring {

// Transports of ranks 0 .. ranks - 1, each linked to all others; ranks >= 2. Each
// direction of a link holds up to `link_bytes` >= 1 bytes that were sent and not yet
// received, so it blocks like a socket. The transports may be destroyed in any order.
std::vector<std::unique_ptr<Transport>> MakeInProcessTransports(int ranks,
                                                                size_t link_bytes);

}  // namespace psring

#endif  // PSRING_RING_IN_PROCESS_TRANSPORT_H_
