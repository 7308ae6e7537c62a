#include "server/round_fold.h"

#include <algorithm>
#include <array>

#include "common/arithmetic.h"
#include "glog/logging.h"
#include "server/sum_terms.h"

namespace psring {
namespace {

// Small enough that the sum stays in the first-level cache until its last use.
constexpr int64_t kBlockCount = 2048;

// Adds the next terms of each reader as SumTerms does, as far as all of them lie in one
// piece at a time.
void SumRuns(bool begin, std::span<FloatReader* const> readers, float factor,
             std::span<float> sum) {
  std::array<Bytes, kMostTerms> runs;
  while (!sum.empty()) {
    auto run = static_cast<int64_t>(sum.size());
    for (FloatReader* const reader : readers) run = std::min(run, reader->Ahead());
    for (size_t i = 0; i < readers.size(); ++i) runs[i] = readers[i]->Next(run);
    SumTerms(begin, std::span(runs).first(readers.size()), factor, sum.first(run));
    sum = sum.subspan(run);
  }
}

}  // namespace

RoundFold::RoundFold(Sync::Order order, Range slot, Range bucket, const RingOrder& ring)
    : ring_(order == Sync::RANK ? RingOrder(ring.ranks()) : ring),
      readers_(ring.ranks()) {
  const int workers = ring.ranks();
  in_order_.reserve(workers);
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

void RoundFold::Mean(std::span<const FloatPieces> terms,
                     absl::FunctionRef<void(int64_t begin, std::span<float> mean)> use,
                     int without_samples) {
  CHECK_EQ(static_cast<int>(terms.size()), ring_.ranks());
  int present = 0;
  for (int rank = 0; rank < ring_.ranks(); ++rank) {
    readers_[rank] = FloatReader(terms[rank]);
    if (terms[rank].count() > 0) ++present;
  }
  const float mean_factor = MeanFactor(present - without_samples);
  std::array<float, kBlockCount> buffer;
  for (const Piece& piece : pieces_) {
    in_order_.clear();
    for (int term = 0; term < ring_.ranks(); ++term) {
      const int rank = ring_.FoldRank(piece.chunk, term);
      if (terms[rank].count() > 0) in_order_.push_back(&readers_[rank]);
    }
    for (int64_t begin = piece.range.begin; begin < piece.range.end();
         begin += kBlockCount) {
      const int64_t count = std::min(kBlockCount, piece.range.end() - begin);
      const std::span<float> mean(buffer.data(), static_cast<size_t>(count));
      NextMean(mean_factor, mean);
      use(begin, mean);
    }
  }
}

// A block: some elements of one piece. All its terms are read once, up to kMostTerms of
// them in one pass over the sum, which stays in cache from the first pass to its use; the
// last pass makes it the mean.
void RoundFold::NextMean(float mean_factor, std::span<float> mean) {
  const std::span<FloatReader* const> terms(in_order_);
  for (size_t begin = 0; begin < terms.size(); begin += kMostTerms) {
    const auto pass = terms.subspan(begin, std::min(kMostTerms, terms.size() - begin));
    const bool last = begin + pass.size() == terms.size();
    SumRuns(begin == 0, pass, last ? mean_factor : 1.0f, mean);
  }
}

}  // namespace psring
