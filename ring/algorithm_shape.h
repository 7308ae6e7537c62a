// The shapes that algorithms follow, as arithmetic on positions: what moves
// (algorithm.cc) and formulas (algorithm_traffic.cc) share. Not for others.
#ifndef PSRING_RING_ALGORITHM_SHAPE_H_
#define PSRING_RING_ALGORITHM_SHAPE_H_

#include <algorithm>
#include <bit>
#include <cstdint>

#include "common/partition.h"
#include "ring/algorithm.h"
#include "ring/operation_header.h"

namespace psring {

// One position's view of an operation: what all algorithms need.
struct Part {
  int64_t count;
  int position;
  int ranks;

  Range all() const { return {.begin = 0, .count = count}; }
  Range chunk(int position) const { return PartitionRange(count, ranks, position); }
  // Chunks first .. end - 1, which lie side by side.
  Range chunks(int first, int end) const {
    const int64_t begin = first == ranks ? count : chunk(first).begin;
    return {.begin = begin, .count = (end == ranks ? count : chunk(end).begin) - begin};
  }
  int64_t own() const { return chunk(position).count; }
};

// The parent of a position lies nearer to 0, its children farther; the subtree of a
// position is a run of positions that begins with it, so that its chunks are one range.
//
//   binomial      parent(v) = v without its lowest bit: log N levels
//   star          parent(v) = 0: gather_broadcast
struct Tree {
  bool star;
  int ranks;

  int parent(int position) const { return star ? 0 : position & (position - 1); }
  // One past the last position of the subtree.
  int end(int position) const {
    if (position == 0) return ranks;
    return star ? position + 1 : std::min(ranks, position + (position & -position));
  }
  int child_count(int position) const {
    if (star) return position == 0 ? ranks - 1 : 0;
    int count = 0;
    for (int bit = 1; position + bit < end(position); bit *= 2) ++count;
    return count;
  }
  // Ascending, the smallest subtrees first.
  int child(int position, int index) const {
    return star ? 1 + index : position + (1 << index);
  }
};

// P = 2^k groups of one or two neighbouring positions: the first N - P groups are pairs.
struct Groups {
  int ranks;

  int count() const {
    return static_cast<int>(std::bit_floor(static_cast<unsigned>(ranks)));
  }
  int pairs() const { return ranks - count(); }
  int of(int position) const {
    return position < 2 * pairs() ? position / 2 : position - pairs();
  }
  // Its (first) position; also defined one past the last group.
  int first(int group) const { return group < pairs() ? 2 * group : group + pairs(); }
  bool is_second(int position) const {
    return position < 2 * pairs() && position % 2 == 1;
  }
  int log_count() const { return std::countr_zero(static_cast<unsigned>(count())); }
  // The chunks of all groups that share the bits of `group` above the lowest `bits`.
  Range region(const Part& part, int group, int bits) const {
    const int lowest = group >> bits << bits;
    return part.chunks(first(lowest), first(lowest + (1 << bits)));
  }
};

// Whether halving-doubling sums by recursive doubling.
inline bool IsSmall(OperationKind kind, int64_t count) {
  return (kind == OperationKind::kAllReduce || kind == OperationKind::kBarrier) &&
         count <= kDoublingBytes / int64_t{sizeof(float)};
}

}  // namespace psring

#endif  // PSRING_RING_ALGORITHM_SHAPE_H_
