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

// Both of the above.
constexpr RingBytes SharedMemorySumBytes(int64_t count, int rank, int ranks) {
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
