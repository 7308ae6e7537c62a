// Who sends which chunk when: the index arithmetic of the ring, and nothing else. Pure.
//
// N ranks sum a bucket of n elements, cut into N chunks: chunk c is
// PartitionRange(n, N, c). Every rank sends to its right (rank + 1) and receives from its
// left (rank - 1), both modulo N, in 2(N-1) hops:
//
//   reduce-scatter, hops 0 .. N-2: the received chunk is a partial sum, to which the
//     rank adds its own term. Chunk c starts at rank c + 1 and is finished by rank c,
//     which adds the last term (common/ring_order.h).
//   all-gather, hops N-1 .. 2N-3: the finished chunks go round.
//
// In both phases a rank sends in hop h + 1 the chunk that it received in hop h, so one
// formula covers all hops.
//
// All functions require ranks >= 1, 0 <= rank < ranks, and 0 <= hop < RingHops(ranks)
// (SentChunk with one rank: hop 0, chunk 0).
#ifndef PSRING_RING_RING_SCHEDULE_H_
#define PSRING_RING_RING_SCHEDULE_H_

namespace psring {

constexpr int RightOf(int rank, int ranks) { return (rank + 1) % ranks; }
constexpr int LeftOf(int rank, int ranks) { return (rank + ranks - 1) % ranks; }

constexpr int ReduceScatterHops(int ranks) { return ranks - 1; }
constexpr int RingHops(int ranks) { return 2 * (ranks - 1); }

constexpr int SentChunk(int rank, int hop, int ranks) {
  return (2 * ranks + rank - 1 - hop) % ranks;
}
constexpr int ReceivedChunk(int rank, int hop, int ranks) {
  return SentChunk(LeftOf(rank, ranks), hop, ranks);
}

}  // namespace psring

#endif  // PSRING_RING_RING_SCHEDULE_H_
