// The mean of a round's contributions to one slot, in an order that does not depend on
// when they arrived.
#ifndef PSRING_SERVER_ROUND_FOLD_H_
#define PSRING_SERVER_ROUND_FOLD_H_

#include <cstdint>
#include <span>
#include <vector>

#include "absl/functional/function_ref.h"
#include "common/float_pieces.h"
#include "common/partition.h"
#include "common/ring_order.h"
#include "proto/experiment.pb.h"

namespace psring {

// Order of the terms of an element, with N workers:
//   RANK  0, 1, ..., N-1.
//   RING  that in which the ring sums the element; it differs between the N chunks of
//         the bucket (common/ring_order.h), and a slot may overlap several of them.
// The sum starts with its first term (0 + -0 would lose the sign) and is multiplied once
// by MeanFactor(N). Where only some ranks have contributed, they keep
// this order among themselves, and N is their number. Ranks that have had no samples
// contribute zeros: these are added like others, and do not count in the last N.
//
// Not thread-safe. Nothing is allocated after construction.
class RoundFold {
 public:
  // `slot` and `bucket` are in elements of the flat buffer, slot inside bucket. `ring`
  // has all N workers.
  RoundFold(Sync::Order order, Range slot, Range bucket, const RingOrder& ring);

  // Hands `use` the mean block by block, in order and covering the slot once: `begin`
  // counts from the slot's first element; the block is only valid during the call, and
  // its user's to change. `terms` holds a gradient of the slot's size for each rank, or
  // an empty one where the rank has none; at least one has. Each is read once, front to
  // back, straight out of the pieces in which it came. `without_samples` of the ranks
  // that have one, and not all, have had no samples.
  void Mean(std::span<const FloatPieces> terms,
            absl::FunctionRef<void(int64_t begin, std::span<float> mean)> use,
            int without_samples = 0);

 private:
  // A run of the slot's elements whose terms have one order.
  struct Piece {
    Range range;  // From the slot's first element.
    int chunk = 0;
  };

  // Puts the mean of the next `mean.size()` elements there.
  void NextMean(float mean_factor, std::span<float> mean);

  const RingOrder ring_;
  std::vector<Piece> pieces_;
  // Of Mean: a reader for each rank, and those of the terms that there are, in the order
  // of the piece at hand.
  std::vector<FloatReader> readers_;
  std::vector<FloatReader*> in_order_;
};

}  // namespace psring

#endif  // PSRING_SERVER_ROUND_FOLD_H_
