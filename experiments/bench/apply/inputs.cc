#include "experiments/bench/apply/inputs.h"

#include <cstring>
#include <span>

#include "glog/logging.h"
#include "worker/draw.h"

namespace psring {

float ContributionAt(int rank, int64_t element) {
  return static_cast<float>(
      UniformDraw(static_cast<uint64_t>(rank) + 1, static_cast<uint64_t>(element)));
}

float ParameterAt(int64_t element) {
  return static_cast<float>(UniformDraw(0, static_cast<uint64_t>(element)));
}

RankContributions::RankContributions(PieceKind kind, int rank,
                                     const std::vector<Slot>& slots)
    : kind_(kind) {
  int64_t bytes = 0;
  for (const Slot& slot : slots) {
    CHECK_EQ(slot.index, static_cast<int>(begin_.size()));
    begin_.push_back(bytes);
    slot_bytes_.push_back(slot.range.count * int64_t{sizeof(float)});
    bytes += ReceivedBytes(kind_, slot_bytes_.back());
  }
  memory_ = std::make_unique_for_overwrite<std::byte[]>(static_cast<size_t>(bytes));
  std::vector<float> values;
  for (const Slot& slot : slots) {
    values.resize(static_cast<size_t>(slot.range.count));
    for (int64_t i = 0; i < slot.range.count; ++i) {
      values[i] = ContributionAt(rank, slot.range.begin + i);
    }
    Bytes rest = std::as_bytes(std::span<const float>(values));
    const FloatPieces pieces = Of(slot.index);
    for (const Bytes& piece : pieces.pieces()) {
      std::memcpy(memory_.get() + (piece.data() - memory_.get()), rest.data(),
                  piece.size());
      rest = rest.subspan(piece.size());
    }
  }
}

}  // namespace psring
