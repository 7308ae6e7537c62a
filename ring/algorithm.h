// Who sends what to whom: every collective in every algorithm, as the moves of each rank
// and as traffic. Pure.
//
// Ranks are named by their position (common/ring_order.h), 0 .. N-1. Of n elements, chunk
// p is PartitionRange(n, N, p); a reduce-scatter finishes it at position p, and an
// all-gather starts from there. Broadcasts come from position 0.
#ifndef PSRING_RING_ALGORITHM_H_
#define PSRING_RING_ALGORITHM_H_

#include <cstdint>
#include <vector>

#include "proto/experiment.pb.h"
#include "ring/move.h"
#include "ring/operation_header.h"

namespace psring {

using Algorithm = RingMode::Algorithm;

// Payload of one rank in one operation.
struct OperationBytes {
  int64_t out = 0;
  int64_t in = 0;
  friend bool operator==(const OperationBytes&, const OperationBytes&) = default;
};

// What as floats is up to so many bytes halving-doubling sums by recursive doubling:
// fewer messages one after the other, for more bytes.
inline constexpr int64_t kDoublingBytes = 64 << 10;

// Appends the moves of `position`. A barrier is a sum of N elements of no interest. The
// number of moves does not depend on the count, but for halving-doubling's choice, and
// is at most MostMoves(ranks). Requires count >= 0 and 0 <= position < ranks.
void AppendMoves(Algorithm algorithm, OperationKind kind, int64_t count, int position,
                 int ranks, MoveList* moves);
constexpr int MostMoves(int ranks) { return 4 * ranks + 4; }

// The positions that `position` ever moves bytes to or from, ascending.
std::vector<int> LinkedPositions(Algorithm algorithm, int position, int ranks);

// The payload of all moves, by formula.
OperationBytes PayloadBytes(Algorithm algorithm, OperationKind kind, int64_t count,
                            int position, int ranks,
                            int64_t element_bytes = sizeof(float));

}  // namespace psring

#endif  // PSRING_RING_ALGORITHM_H_
