// What the operations of SharedMemoryAllReduce move, exactly. Pure.
//
// `in` is what a rank reads of the other ranks' memory and what they write into its own,
// `out` the reverse. Over all ranks a sum moves as much as round a ring, and between two
// ranks each moves the same; with more, single ranks differ by the sizes of their chunks.
//
// All functions require ranks >= 1 and 0 <= rank < ranks.
#ifndef PSRING_RING_SHARED_MEMORY_TRAFFIC_H_
#define PSRING_RING_SHARED_MEMORY_TRAFFIC_H_

#include <cstdint>

#include "common/partition.h"
#include "ring/ring_schedule.h"
#include "ring/shared_memory_layout.h"

namespace psring {

// Of rank r's chunk, the others' terms come in; of the other chunks, r's terms go out.
constexpr RingBytes SharedMemoryReduceScatterBytes(int64_t count, int rank, int ranks) {
  const int64_t own = PartitionRange(count, ranks, rank).count;
  const int64_t float_bytes = sizeof(float);
  return {.out = (count - own) * float_bytes, .in = (ranks - 1) * own * float_bytes};
}

// The reverse.
constexpr RingBytes SharedMemoryAllGatherBytes(int64_t count, int rank, int ranks) {
  const RingBytes scatter = SharedMemoryReduceScatterBytes(count, rank, ranks);
  return {.out = scatter.in, .in = scatter.out};
}

// Few values (up to kSlotCount) every rank reads from every other and sums by itself;
// otherwise both of the above.
constexpr RingBytes SharedMemorySumBytes(int64_t count, int rank, int ranks) {
  if (count <= kSlotCount) {
    const int64_t bytes = (ranks - 1) * count * int64_t{sizeof(float)};
    return {.out = bytes, .in = bytes};
  }
  const RingBytes scatter = SharedMemoryReduceScatterBytes(count, rank, ranks);
  const int64_t bytes = scatter.out + scatter.in;
  return {.out = bytes, .in = bytes};
}

constexpr RingBytes SharedMemoryBroadcastBytes(int64_t count, int rank, int ranks) {
  const int64_t bytes = count * int64_t{sizeof(float)};
  return {.out = rank == 0 ? (ranks - 1) * bytes : 0, .in = rank == 0 ? 0 : bytes};
}

}  // namespace psring

#endif  // PSRING_RING_SHARED_MEMORY_TRAFFIC_H_
