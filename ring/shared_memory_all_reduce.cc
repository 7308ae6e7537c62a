#include "ring/shared_memory_all_reduce.h"

#include <algorithm>
#include <array>
#include <cstring>
#include <utility>

#include "absl/strings/str_cat.h"
#include "common/arithmetic.h"
#include "common/errors.h"
#include "common/partition.h"
#include "common/ring_order.h"
#include "common/status_macros.h"
#include "common/vectorize.h"
#include "glog/logging.h"
#include "ring/shared_memory_layout.h"

// How an operation runs.
//
// In place, when the values of all ranks lie in the segment. The ranks meet, so that all
// values are final. Then rank r alone deals with chunk r of everyone's values: it makes
// its sums block by block, small enough to stay in the cache, and writes each block to
// all ranks while their terms, just read, are in the cache as well. The ranks meet again,
// so that all chunks are finished. Every float crosses from memory once and back once.
//
// Through slots, when the values are few: each rank copies its own into its slot, the
// ranks meet, and each makes all the sums by itself from all slots. That is more reading
// than in place, but one meeting instead of two, and below some kilobytes meetings are
// all that counts. No second one is needed, because nobody touches another's values, and
// the two slots of a rank are used in turn: who fills one again has met the others since
// its last use, for the use of the other slot.
//
// Also through slots, piece by piece, go many values that lie elsewhere. A sum is then a
// reduce-scatter and an all-gather, so that it moves no more than in place.

namespace psring {
namespace {

// Half of a first-level cache, which also sees a block of each term go by.
constexpr int64_t kBlockCount = 4096;

PSRING_VECTORIZED
void AddTwo(const float* __restrict a, const float* __restrict b, float* __restrict sum,
            int64_t count) {
  for (int64_t i = 0; i < count; ++i) sum[i] = a[i] + b[i];
}

// Replaces both by a[i] + b[i].
PSRING_VECTORIZED
void AddToBoth(float* __restrict a, float* __restrict b, int64_t count) {
  for (int64_t i = 0; i < count; ++i) {
    const float sum = a[i] + b[i];
    a[i] = sum;
    b[i] = sum;
  }
}

void Copy(const float* from, float* to, int64_t count) {
  if (count > 0) std::memcpy(to, from, count * sizeof(float));
}

Range Intersect(Range a, Range b) {
  const int64_t begin = std::max(a.begin, b.begin);
  return {.begin = begin,
          .count = std::max<int64_t>(0, std::min(a.end(), b.end()) - begin)};
}

}  // namespace

SharedMemoryAllReduce::SharedMemoryAllReduce(std::shared_ptr<SharedMemorySegment> segment,
                                             LinkCounters* counters,
                                             SharedMemoryOptions options)
    : segment_(std::move(segment)),
      rank_(segment_->rank()),
      ranks_(segment_->ranks()),
      counters_(counters),
      meeting_(segment_, options.stall_timeout, options.wait) {}

absl::Status SharedMemoryAllReduce::Sum(int64_t step, const Bucket& bucket,
                                        DeviceSpan values) {
  CHECK_EQ(values.count, bucket.range.count);
  return Run({.kind = OperationKind::kSum, .step = step, .bucket = bucket.index}, values);
}

absl::Status SharedMemoryAllReduce::ReduceScatter(int64_t step, const Bucket& bucket,
                                                  DeviceSpan values) {
  CHECK_EQ(values.count, bucket.range.count);
  return Run(
      {.kind = OperationKind::kReduceScatter, .step = step, .bucket = bucket.index},
      values);
}

absl::Status SharedMemoryAllReduce::AllGather(int64_t step, const Bucket& bucket,
                                              DeviceSpan values) {
  CHECK_EQ(values.count, bucket.range.count);
  return Run({.kind = OperationKind::kAllGather, .step = step, .bucket = bucket.index},
             values);
}

absl::Status SharedMemoryAllReduce::Broadcast(DeviceSpan values) {
  return Run({.kind = OperationKind::kBroadcast}, values);
}

absl::Status SharedMemoryAllReduce::Barrier() {
  return Run({.kind = OperationKind::kBarrier}, {});
}

absl::Status SharedMemoryAllReduce::Run(OperationHeader header, DeviceSpan values) {
  RETURN_IF_ERROR(failure_);
  if (ranks_ == 1) return absl::OkStatus();
  header.job_fingerprint = segment_->fingerprint();
  header.sequence = sequence_++;
  header.count = values.count;
  const absl::Status status = RunOnce(header, values.host());
  if (status.ok()) return status;
  failure_ = Annotate(status, Describe(header));
  meeting_.Abort(failure_);
  return failure_;
}

absl::Status SharedMemoryAllReduce::RunOnce(const OperationHeader& header,
                                            std::span<float> values) {
  const OperationKind kind = header.kind;
  const bool few = header.count <= kSlotCount;
  const Range all = {.begin = 0, .count = header.count};
  if (few) FillSlot(kind, values, all);
  RETURN_IF_ERROR(meeting_.Begin(header, segment_->PositionOf(values)));
  if (few) {
    UseSlots(kind, values, all);
  } else if (AllAreInSegment()) {
    RunInPlace(kind, values);
    RETURN_IF_ERROR(meeting_.Meet());
  } else if (kind == OperationKind::kSum) {
    RETURN_IF_ERROR(RunThroughSlots(OperationKind::kReduceScatter, values));
    RETURN_IF_ERROR(RunThroughSlots(OperationKind::kAllGather, values));
  } else {
    RETURN_IF_ERROR(RunThroughSlots(kind, values));
  }
  return absl::OkStatus();
}

// Puts this rank's part of a piece where all can read it.
void SharedMemoryAllReduce::FillSlot(OperationKind kind, std::span<const float> values,
                                     Range piece) {
  Range part = piece;
  if (kind == OperationKind::kBroadcast && rank_ != 0) return;
  if (kind == OperationKind::kAllGather) part = Intersect(piece, ChunkOf(values, rank_));
  Copy(values.data() + part.begin,
       segment_->slot(rank_, slot_).data() + (part.begin - piece.begin), part.count);
}

// Takes this rank's part of a piece from all slots, once they have been filled, and
// counts what the others take from its own.
void SharedMemoryAllReduce::UseSlots(OperationKind kind, std::span<float> values,
                                     Range piece) {
  const auto slot_at = [&](int rank, Range part) {
    return segment_->slot(rank, slot_).data() + (part.begin - piece.begin);
  };
  const auto copy_from = [&](int rank, Range part) {
    Copy(slot_at(rank, part), values.data() + part.begin, part.count);
  };
  const auto fold = [&](int chunk, Range part) {
    Fold(
        chunk, [&](int rank) { return slot_at(rank, part); },
        values.subspan(part.begin, part.count));
  };
  const int others = ranks_ - 1;
  const Range own = Intersect(piece, ChunkOf(values, rank_));
  switch (kind) {
    case OperationKind::kSum:
      for (int chunk = 0; chunk < ranks_; ++chunk) {
        fold(chunk, Intersect(piece, ChunkOf(values, chunk)));
      }
      Count(kind, others * piece.count, others * piece.count);
      break;
    case OperationKind::kReduceScatter:
      fold(rank_, own);
      Count(kind, others * own.count, piece.count - own.count);
      break;
    case OperationKind::kAllGather:
      for (int chunk = 0; chunk < ranks_; ++chunk) {
        if (chunk != rank_) copy_from(chunk, Intersect(piece, ChunkOf(values, chunk)));
      }
      Count(kind, piece.count - own.count, others * own.count);
      break;
    case OperationKind::kBroadcast:
      if (rank_ != 0) copy_from(0, piece);
      Count(kind, rank_ == 0 ? 0 : piece.count, rank_ == 0 ? others * piece.count : 0);
      break;
    case OperationKind::kBarrier:
      break;
  }
  slot_ ^= 1;
}

absl::Status SharedMemoryAllReduce::RunThroughSlots(OperationKind kind,
                                                    std::span<float> values) {
  const auto count = static_cast<int64_t>(values.size());
  for (int64_t begin = 0; begin < count; begin += kSlotCount) {
    const Range piece = {.begin = begin, .count = std::min(kSlotCount, count - begin)};
    FillSlot(kind, values, piece);
    RETURN_IF_ERROR(meeting_.Meet());
    UseSlots(kind, values, piece);
  }
  return absl::OkStatus();
}

// Does this rank's part between the two meetings, and counts what the others do to its
// values meanwhile.
void SharedMemoryAllReduce::RunInPlace(OperationKind kind, std::span<float> values) {
  const auto count = static_cast<int64_t>(values.size());
  const auto copy_from = [&](int rank, Range part) {
    Copy(segment_->At(meeting_.PositionOf(rank)) + part.begin, values.data() + part.begin,
         part.count);
  };
  const int others = ranks_ - 1;
  const Range own = ChunkOf(values, rank_);
  switch (kind) {
    case OperationKind::kSum:
      ReduceOwnChunk(own, /*to_all=*/true);
      Count(kind, others * own.count + count - own.count,
            others * own.count + count - own.count);
      break;
    case OperationKind::kReduceScatter:
      ReduceOwnChunk(own, /*to_all=*/false);
      Count(kind, others * own.count, count - own.count);
      break;
    case OperationKind::kAllGather:
      for (int chunk = 0; chunk < ranks_; ++chunk) {
        if (chunk != rank_) copy_from(chunk, ChunkOf(values, chunk));
      }
      Count(kind, count - own.count, others * own.count);
      break;
    case OperationKind::kBroadcast:
      if (rank_ != 0) copy_from(0, {.begin = 0, .count = count});
      Count(kind, rank_ == 0 ? 0 : count, rank_ == 0 ? others * count : 0);
      break;
    case OperationKind::kBarrier:
      break;
  }
}

void SharedMemoryAllReduce::ReduceOwnChunk(Range own, bool to_all) {
  const auto values_of = [&](int rank) {
    return segment_->At(meeting_.PositionOf(rank));
  };
  if (ranks_ == 2 && to_all) {
    return AddToBoth(values_of(RingFoldRank(rank_, 0, 2)) + own.begin,
                     values_of(RingFoldRank(rank_, 1, 2)) + own.begin, own.count);
  }
  alignas(kCacheLineBytes) std::array<float, kBlockCount> sums;
  for (int64_t begin = own.begin; begin < own.end(); begin += kBlockCount) {
    const int64_t count = std::min(kBlockCount, own.end() - begin);
    Fold(
        rank_, [&](int rank) { return values_of(rank) + begin; },
        std::span(sums).first(count));
    for (int rank = 0; rank < ranks_; ++rank) {
      if (to_all || rank == rank_) Copy(sums.data(), values_of(rank) + begin, count);
    }
  }
}

bool SharedMemoryAllReduce::AllAreInSegment() const {
  for (int rank = 0; rank < ranks_; ++rank) {
    if (meeting_.PositionOf(rank) < 0) return false;
  }
  return true;
}

Range SharedMemoryAllReduce::ChunkOf(std::span<const float> values, int rank) const {
  return PartitionRange(static_cast<int64_t>(values.size()), ranks_, rank);
}

void SharedMemoryAllReduce::Fold(int chunk,
                                 absl::FunctionRef<const float*(int rank)> term_of,
                                 std::span<float> sums) {
  const auto count = static_cast<int64_t>(sums.size());
  const auto term = [&](int position) {
    return term_of(RingFoldRank(chunk, position, ranks_));
  };
  AddTwo(term(0), term(1), sums.data(), count);
  for (int position = 2; position < ranks_; ++position) {
    AddInPlace(sums, {term(position), sums.size()});
  }
}

void SharedMemoryAllReduce::Count(OperationKind kind, int64_t floats_in,
                                  int64_t floats_out) {
  const TrafficKind traffic =
      kind == OperationKind::kBroadcast ? TrafficKind::kInitial : TrafficKind::kStep;
  counters_->CountIn(traffic, floats_in * int64_t{sizeof(float)});
  counters_->CountOut(traffic, floats_out * int64_t{sizeof(float)});
}

}  // namespace psring
