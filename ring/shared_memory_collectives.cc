#include "ring/shared_memory_collectives.h"

#include <algorithm>
#include <array>
#include <chrono>
#include <cstring>
#include <utility>

#include "common/arithmetic.h"
#include "common/status_macros.h"
#include "common/vectorize.h"
#include "glog/logging.h"
#include "ring/shared_memory_layout.h"

// How an operation runs.
//
// In place, when the values of all ranks lie in the segment. The ranks meet, so that all
// values are final. Then each rank alone deals with its own chunk of everyone's values:
// it makes the sums block by block, small enough to stay in the cache, and writes each
// block to all ranks while their terms, just read, are in the cache as well. The ranks
// meet again, so that all chunks are finished. Every float crosses from memory once and
// back once.
//
// Through slots, where the values of some rank lie elsewhere: a rank copies a piece of
// its values into its slot, the ranks meet, and each takes its part of the piece from all
// slots. A sum is then a reduce-scatter and an all-gather, so that it moves no more than
// in place. Nobody touches another's values, and the two slots of a rank are used in
// turn: who fills one again has met the others since its last use, for the use of the
// other slot. So one meeting per piece is enough.

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

Range Intersection(Range a, Range b) {
  const int64_t begin = std::max(a.begin, b.begin);
  return {.begin = begin,
          .count = std::max<int64_t>(0, std::min(a.end(), b.end()) - begin)};
}

}  // namespace

SharedMemoryCollectives::SharedMemoryCollectives(
    std::shared_ptr<SharedMemorySegment> segment, SharedMemoryOptions options)
    : segment_(std::move(segment)),
      order_(std::move(options.order)),
      rank_(segment_->rank()),
      ranks_(segment_->ranks()),
      position_(order_.PositionOf(rank_)),
      meeting_(segment_, options.stall_timeout, options.wait) {
  CHECK_EQ(order_.ranks(), ranks_);
  CHECK_EQ(order_.RankAt(0), 0);
}

absl::Status SharedMemoryCollectives::AllReduce(OperationTag tag, Elements values) {
  return Run(OperationKind::kAllReduce, tag, values);
}

absl::Status SharedMemoryCollectives::ReduceScatter(OperationTag tag, Elements values) {
  return Run(OperationKind::kReduceScatter, tag, values);
}

absl::Status SharedMemoryCollectives::AllGather(OperationTag tag, Elements values) {
  return Run(OperationKind::kAllGather, tag, values);
}

absl::Status SharedMemoryCollectives::Broadcast(DeviceSpan values) {
  return Run(OperationKind::kBroadcast, {}, values);
}

absl::Status SharedMemoryCollectives::Barrier() {
  return Run(OperationKind::kBarrier, {}, DeviceSpan{});
}

absl::Status SharedMemoryCollectives::Run(OperationKind kind, OperationTag tag,
                                          Elements values) {
  RETURN_IF_ERROR(failure_);
  if (values.type != ElementType::kFloat32) {
    return absl::UnimplementedError(
        "in shared memory there are operations on floats only");
  }
  if (ranks_ == 1) return absl::OkStatus();
  const OperationHeader header = {.kind = kind,
                                  .job_fingerprint = segment_->fingerprint(),
                                  .sequence = sequence_++,
                                  .step = tag.step,
                                  .count = values.count,
                                  .bucket = tag.bucket};
  failure_ = RunOnce(
      header, {reinterpret_cast<float*>(values.data), static_cast<size_t>(values.count)});
  if (!failure_.ok()) meeting_.Abort(failure_);
  return failure_;
}

absl::Status SharedMemoryCollectives::RunOnce(const OperationHeader& header,
                                              std::span<float> values) {
  RETURN_IF_ERROR(meeting_.Begin(header, segment_->PositionOf(values)));
  if (values.empty()) return absl::OkStatus();
  if (AllAreInSegment()) {
    const auto at = [&](int rank, int64_t index) {
      return segment_->At(meeting_.PositionOf(rank)) + index;
    };
    TakePart(header.kind, values, {.begin = 0, .count = header.count}, at);
    return meeting_.Meet();
  }
  switch (header.kind) {
    case OperationKind::kAllReduce:
      RETURN_IF_ERROR(RunThroughSlots(OperationKind::kReduceScatter, values));
      return RunThroughSlots(OperationKind::kAllGather, values);
    case OperationKind::kBroadcast:
      RETURN_IF_ERROR(RunThroughSlots(header.kind, values));
      return meeting_.Meet();  // Rank 0 returns when all have the values.
    default:
      return RunThroughSlots(header.kind, values);
  }
}

bool SharedMemoryCollectives::AllAreInSegment() const {
  for (int rank = 0; rank < ranks_; ++rank) {
    if (meeting_.PositionOf(rank) < 0) return false;
  }
  return true;
}

absl::Status SharedMemoryCollectives::RunThroughSlots(OperationKind kind,
                                                      std::span<float> values) {
  const auto count = static_cast<int64_t>(values.size());
  const Range own = PartitionRange(count, ranks_, position_);
  for (int64_t begin = 0; begin < count; begin += kSlotCount) {
    const Range piece = {.begin = begin, .count = std::min(kSlotCount, count - begin)};
    const auto at = [&](int rank, int64_t index) {
      return segment_->slot(rank, slot_).data() + (index - begin);
    };
    // Of a gathered piece, others take what is in this rank's chunk.
    const Range filled =
        kind == OperationKind::kAllGather ? Intersection(piece, own) : piece;
    if (kind != OperationKind::kBroadcast || rank_ == 0) {
      Copy(values.data() + filled.begin, at(rank_, filled.begin), filled.count);
    }
    RETURN_IF_ERROR(meeting_.Meet());
    TakePart(kind, values, piece, at);
    slot_ ^= 1;
  }
  return absl::OkStatus();
}

void SharedMemoryCollectives::TakePart(OperationKind kind, std::span<float> values,
                                       Range piece, ValueAt at) {
  const int64_t others = ranks_ - 1;
  const auto part_of = [&](int position) {
    const auto count = static_cast<int64_t>(values.size());
    return Intersection(piece, PartitionRange(count, ranks_, position));
  };
  const Range own = part_of(position_);
  const int64_t rest = piece.count - own.count;
  const auto copy_from = [&](int rank, Range range) {
    Copy(at(rank, range.begin), values.data() + range.begin, range.count);
  };
  const auto start = std::chrono::steady_clock::now();
  const auto note_working = [&] {
    working_ += absl::FromChrono(std::chrono::steady_clock::now() - start);
  };
  switch (kind) {
    case OperationKind::kAllReduce:
      SumToAll(own, at);
      note_working();
      Count(kind, others * own.count + rest, others * own.count + rest);
      break;
    case OperationKind::kReduceScatter:
      SumByBlocks(own, at, [&](Range block, const float* sums) {
        Copy(sums, values.data() + block.begin, block.count);
      });
      note_working();
      Count(kind, rest, others * own.count);
      break;
    case OperationKind::kAllGather:
      for (int position = 0; position < ranks_; ++position) {
        if (position != position_) copy_from(order_.RankAt(position), part_of(position));
      }
      Count(kind, others * own.count, rest);
      break;
    case OperationKind::kBroadcast:
      if (rank_ == 0) {
        Count(kind, others * piece.count, 0);
      } else {
        copy_from(0, piece);
        Count(kind, 0, piece.count);
      }
      break;
    case OperationKind::kBarrier:
      break;
  }
}

void SharedMemoryCollectives::SumToAll(Range range, ValueAt at) const {
  if (ranks_ == 2) {
    return AddToBoth(at(order_.FoldRank(position_, 0), range.begin),
                     at(order_.FoldRank(position_, 1), range.begin), range.count);
  }
  SumByBlocks(range, at, [&](Range block, const float* sums) {
    for (int rank = 0; rank < ranks_; ++rank) {
      Copy(sums, at(rank, block.begin), block.count);
    }
  });
}

void SharedMemoryCollectives::SumByBlocks(
    Range range, ValueAt at,
    absl::FunctionRef<void(Range block, const float* sums)> take) const {
  alignas(kCacheLineBytes) std::array<float, kBlockCount> buffer;
  for (int64_t begin = range.begin; begin < range.end(); begin += kBlockCount) {
    const Range block = {.begin = begin,
                         .count = std::min(kBlockCount, range.end() - begin)};
    const auto sums = std::span(buffer).first(block.count);
    const auto term = [&](int index) -> const float* {
      return at(order_.FoldRank(position_, index), begin);
    };
    AddTwo(term(0), term(1), sums.data(), block.count);
    for (int index = 2; index < ranks_; ++index) {
      AddInPlace(sums, {term(index), sums.size()});
    }
    take(block, sums.data());
  }
}

void SharedMemoryCollectives::Count(OperationKind kind, int64_t floats_out,
                                    int64_t floats_in) {
  const TrafficKind traffic =
      kind == OperationKind::kBroadcast ? TrafficKind::kInitial : TrafficKind::kStep;
  counters_.CountOut(traffic, floats_out * int64_t{sizeof(float)});
  counters_.CountIn(traffic, floats_in * int64_t{sizeof(float)});
}

}  // namespace psring
