// What shared-memory collectives move, exactly. Pure.
//
// `in` is what a rank reads of the other ranks' memory and what they write into its own,
// `out` the reverse. All ranks together move in a sum as much as round a ring. Each moves
// the same as in a ring where all chunks have the same size, and between two ranks.
#ifndef PSRING_RING_SHARED_MEMORY_TRAFFIC_H_
#define PSRING_RING_SHARED_MEMORY_TRAFFIC_H_

#include <cstdint>

#include "common/partition.h"
#include "ring/operation_header.h"

namespace psring {

// Payload of one rank in one operation.
struct SharedMemoryBytes {
  int64_t out = 0;
  int64_t in = 0;
};

// Of the rank at `position` (common/ring_order.h). Requires count >= 0 and
// 0 <= position < ranks. Broadcasts come from rank 0, which is at position 0.
constexpr SharedMemoryBytes SharedMemoryPayload(OperationKind kind, int64_t count,
                                                int position, int ranks) {
  const int64_t float_bytes = sizeof(float);
  const int64_t others = ranks - 1;
  const int64_t own = PartitionRange(count, ranks, position).count;
  // The others' terms of this rank's chunk, and its terms of theirs.
  const int64_t gathered = others * own * float_bytes;
  const int64_t given = (count - own) * float_bytes;
  switch (kind) {
    case OperationKind::kReduceScatter:
      return {.out = given, .in = gathered};
    case OperationKind::kAllGather:
      return {.out = gathered, .in = given};
    case OperationKind::kAllReduce:
      return {.out = gathered + given, .in = gathered + given};
    case OperationKind::kBroadcast:
      return position == 0 ? SharedMemoryBytes{.out = others * count * float_bytes}
                           : SharedMemoryBytes{.in = count * float_bytes};
    case OperationKind::kBarrier:
      break;
  }
  return {};
}

}  // namespace psring

#endif  // PSRING_RING_SHARED_MEMORY_TRAFFIC_H_
