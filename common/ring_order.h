// The order of ranks in a ring, and the order in which it adds up an element, which
// servers follow so that both architectures give the same bits.
#ifndef PSRING_COMMON_RING_ORDER_H_
#define PSRING_COMMON_RING_ORDER_H_

#include <numeric>
#include <utility>
#include <vector>

#include "glog/logging.h"

namespace psring {

// Position whose contribution is the `term`-th (0: the first) of every element in ring
// chunk `chunk` of a bucket, with N ranks: chunk + 1, chunk + 2, ..., chunk (mod N).
// Chunk c of a bucket is PartitionRange(bucket count, N, c); position c, which adds the
// last term, finishes it.
constexpr int RingFoldRank(int chunk, int term, int ranks) {
  return (chunk + 1 + term) % ranks;
}

// Which rank has which position, 0 .. N-1: each sends to the next one, and the last to
// the first. Everything round a ring counts in positions; here they become ranks. A
// value.
class RingOrder {
 public:
  // Each rank at the position of its number.
  explicit RingOrder(int ranks) : rank_at_(ranks), position_of_(ranks) {
    std::iota(rank_at_.begin(), rank_at_.end(), 0);
    std::iota(position_of_.begin(), position_of_.end(), 0);
  }
  // By position; a permutation of 0 .. N-1.
  explicit RingOrder(std::vector<int> rank_at)
      : rank_at_(std::move(rank_at)), position_of_(rank_at_.size(), -1) {
    for (int position = 0; position < ranks(); ++position) {
      const int rank = rank_at_[position];
      CHECK(0 <= rank && rank < ranks() && position_of_[rank] == -1);
      position_of_[rank] = position;
    }
  }

  int ranks() const { return static_cast<int>(rank_at_.size()); }
  int RankAt(int position) const { return rank_at_[position]; }
  int PositionOf(int rank) const { return position_of_[rank]; }

  // The rank at the position that RingFoldRank names.
  int FoldRank(int chunk, int term) const {
    return RankAt(RingFoldRank(chunk, term, ranks()));
  }

 private:
  std::vector<int> rank_at_;
  std::vector<int> position_of_;
};

}  // namespace psring

#endif  // PSRING_COMMON_RING_ORDER_H_
