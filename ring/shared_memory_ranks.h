// Ranks that are threads and meet in shared memory, for tests.
#ifndef PSRING_RING_SHARED_MEMORY_RANKS_H_
#define PSRING_RING_SHARED_MEMORY_RANKS_H_

#include <cstdint>
#include <memory>
#include <vector>

#include "common/device.h"
#include "common/ring_order.h"
#include "ring/shared_memory_collectives.h"

namespace psring {

// By rank.
struct SharedMemoryRanks {
  std::vector<std::unique_ptr<SharedMemoryCollectives>> collectives;
  std::vector<DeviceBuffer> values;  // In the segment.
};

// In one segment, which has room for so many values of each.
SharedMemoryRanks MakeSharedMemoryRanks(const RingOrder& order, int64_t count);

// Collectives alone: the values of operations lie elsewhere.
std::vector<std::unique_ptr<SharedMemoryCollectives>> MakeSharedMemoryCollectives(
    const RingOrder& order);

}  // namespace psring

#endif  // PSRING_RING_SHARED_MEMORY_RANKS_H_
