// What the updates of `psring bench apply` are given.
#ifndef PSRING_EXPERIMENTS_BENCH_APPLY_INPUTS_H_
#define PSRING_EXPERIMENTS_BENCH_APPLY_INPUTS_H_

#include <cstddef>
#include <cstdint>
#include <memory>
#include <vector>

#include "common/float_pieces.h"
#include "common/slot_plan.h"
#include "experiments/bench/apply/received.h"

namespace psring {

// Random in [-1, 1), by rank and element: sums of them depend on the order of additions.
// `element` is one of the flat buffer.
float ContributionAt(int rank, int64_t element);
// Before the first update.
float ParameterAt(int64_t element);

// The contributions of one rank to all slots; they do not change.
class RankContributions {
 public:
  // The slots' indices are their places in the list.
  RankContributions(PieceKind kind, int rank, const std::vector<Slot>& slots);

  // Views of memory that lives as long as this object.
  FloatPieces Of(int slot) const {
    return FloatPieces(
        ReceivedPieces(kind_, memory_.get() + begin_[slot], slot_bytes_[slot]));
  }

 private:
  const PieceKind kind_;
  std::vector<int64_t> slot_bytes_;
  std::vector<int64_t> begin_;  // Of each slot, in bytes.
  std::unique_ptr<std::byte[]> memory_;
};

}  // namespace psring

#endif  // PSRING_EXPERIMENTS_BENCH_APPLY_INPUTS_H_
