// Ranks that are threads and meet in shared memory, for tests.
#ifndef PSRING_RING_SHARED_MEMORY_RANKS_H_
#define PSRING_RING_SHARED_MEMORY_RANKS_H_

#include <memory>
#include <vector>

#include "common/ring_order.h"
#include "ring/shared_memory_collectives.h"

namespace psring {

// Every rank's collectives in one segment, which has room for a value of each: the values
// of operations lie elsewhere.
std::vector<std::unique_ptr<SharedMemoryCollectives>> MakeSharedMemoryCollectives(
    const RingOrder& order);

}  // namespace psring

#endif  // PSRING_RING_SHARED_MEMORY_RANKS_H_
