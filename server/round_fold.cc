#include "server/round_fold.h"

#include <algorithm>
#include <array>
#include <cstring>
#include <utility>

#include "common/arithmetic.h"
#include "glog/logging.h"

namespace psring {
namespace {

// Small enough that the sum stays in the first-level cache while all terms are added.
constexpr int64_t kBlockCount = 2048;

// The reader's next floats: into `sum` in place of what is there, or added to it.
void Fold(FloatReader& reader, bool first, std::span<float> sum) {
  while (!sum.empty()) {
    const Bytes run = reader.Next(static_cast<int64_t>(sum.size()));
    const std::span<float> to = sum.first(run.size() / sizeof(float));
    if (first) {
      std::memcpy(to.data(), run.data(), run.size());
    } else {
      AddBytesInPlace(to, run);
    }
    sum = sum.subspan(to.size());
  }
}

}  // namespace

RoundFold::RoundFold(Sync::Order order, Range slot, Range bucket, const RingOrder& ring)
    : ring_(order == Sync::RANK ? RingOrder(ring.ranks()) : ring) {
  const int workers = ring.ranks();
  CHECK_GT(workers, 0);
  CHECK(bucket.begin <= slot.begin && slot.end() <= bucket.end());
  if (order == Sync::RANK) {
    // The order of a ring's last chunk is 0, 1, ..., N-1.
    pieces_.push_back({.range = {.begin = 0, .count = slot.count}, .chunk = workers - 1});
    return;
  }
  for (int chunk = 0; chunk < workers; ++chunk) {
    const Range part = PartitionRange(bucket.count, workers, chunk);
    const int64_t begin = std::max(bucket.begin + part.begin, slot.begin);
    const int64_t end = std::min(bucket.begin + part.end(), slot.end());
    if (begin >= end) continue;
    pieces_.push_back(
        {.range = {.begin = begin - slot.begin, .count = end - begin}, .chunk = chunk});
  }
}

void RoundFold::Mean(
    std::span<const FloatPieces> terms,
    absl::FunctionRef<void(int64_t begin, std::span<float> mean)> use) const {
  CHECK_EQ(static_cast<int>(terms.size()), ring_.ranks());
  const auto present =
      std::count_if(terms.begin(), terms.end(),
                    [](const FloatPieces& term) { return term.count() > 0; });
  // A block: some elements of one piece. For each block, all its terms are read once, and
  // its sum stays in cache from the first term to its use.
  std::vector<FloatReader> readers(terms.begin(), terms.end());
  std::array<float, kBlockCount> buffer;
  for (const Piece& piece : pieces_) {
    for (int64_t begin = piece.range.begin; begin < piece.range.end();
         begin += kBlockCount) {
      const int64_t count = std::min(kBlockCount, piece.range.end() - begin);
      const std::span<float> sum(buffer.data(), static_cast<size_t>(count));
      bool first = true;
      for (int term = 0; term < ring_.ranks(); ++term) {
        const int rank = ring_.FoldRank(piece.chunk, term);
        if (terms[rank].count() == 0) continue;
        Fold(readers[rank], std::exchange(first, false), sum);
      }
      ScaleInPlace(sum, MeanFactor(present));
      use(begin, sum);
    }
  }
}

}  // namespace psring
