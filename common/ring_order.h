// The order in which a ring adds up an element, which servers follow so that both
// architectures give the same bits.
#ifndef PSRING_COMMON_RING_ORDER_H_
#define PSRING_COMMON_RING_ORDER_H_

namespace psring {

// Rank whose contribution is the `position`-th term (0: the first) of every element in
// ring chunk `chunk` of a bucket, with N ranks: chunk + 1, chunk + 2, ..., chunk (mod N).
// Chunk c of a bucket is PartitionRange(bucket count, N, c); the rank that adds the last
// term, c itself, finishes it.
constexpr int RingFoldRank(int chunk, int position, int ranks) {
  return (chunk + 1 + position) % ranks;
}

}  // namespace psring

#endif  // PSRING_COMMON_RING_ORDER_H_
