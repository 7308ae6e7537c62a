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
  RETURN_IF_ERROR(meeting_.Begin(header, segment_->PositionOf(values)));
  if (values.empty()) return absl::OkStatus();
  if (AllAreInSegment()) {
    const auto at = [&](int rank, int64_t index) {
      return segment_->At(meeting_.PositionOf(rank)) + index;
    };
    TakePart(header.kind, values, {.begin = 0, .count = header.count}, at);
    return meeting_.Meet();
  }
  if (header.kind == OperationKind::kSum) {
    RETURN_IF_ERROR(RunThroughSlots(OperationKind::kReduceScatter, values));
    return RunThroughSlots(OperationKind::kAllGather, values);
  }
  return RunThroughSlots(header.kind, values);
}

bool SharedMemoryAllReduce::AllAreInSegment() const {
  for (int rank = 0; rank < ranks_; ++rank) {
    if (meeting_.PositionOf(rank) < 0) return false;
  }
  return true;
}

absl::Status SharedMemoryAllReduce::RunThroughSlots(OperationKind kind,
                                                    std::span<float> values) {
  const auto count = static_cast<int64_t>(values.size());
  const Range own = PartitionRange(count, ranks_, rank_);
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

void SharedMemoryAllReduce::TakePart(OperationKind kind, std::span<float> values,
                                     Range piece, ValueAt at) {
  const int64_t others = ranks_ - 1;
  const auto part_of = [&](int rank) {
    const auto count = static_cast<int64_t>(values.size());
    return Intersection(piece, PartitionRange(count, ranks_, rank));
  };
  const Range own = part_of(rank_);
  const int64_t rest = piece.count - own.count;
  const auto copy_from = [&](int rank, Range range) {
    Copy(at(rank, range.begin), values.data() + range.begin, range.count);
  };
  switch (kind) {
    case OperationKind::kSum:
      SumToAll(own, at);
      return Count(kind,
                   {.out = others * own.count + rest, .in = others * own.count + rest});
    case OperationKind::kReduceScatter:
      SumByBlocks(own, at, [&](Range block, const float* sums) {
        Copy(sums, values.data() + block.begin, block.count);
      });
      return Count(kind, {.out = rest, .in = others * own.count});
    case OperationKind::kAllGather:
      for (int rank = 0; rank < ranks_; ++rank) {
        if (rank != rank_) copy_from(rank, part_of(rank));
      }
      return Count(kind, {.out = others * own.count, .in = rest});
    case OperationKind::kBroadcast:
      if (rank_ == 0) return Count(kind, {.out = others * piece.count});
      copy_from(0, piece);
      return Count(kind, {.in = piece.count});
    case OperationKind::kBarrier:
      return;
  }
}

void SharedMemoryAllReduce::SumToAll(Range range, ValueAt at) const {
  if (ranks_ == 2) {
    return AddToBoth(at(RingFoldRank(rank_, 0, 2), range.begin),
                     at(RingFoldRank(rank_, 1, 2), range.begin), range.count);
  }
  SumByBlocks(range, at, [&](Range block, const float* sums) {
    for (int rank = 0; rank < ranks_; ++rank) {
      Copy(sums, at(rank, block.begin), block.count);
    }
  });
}

void SharedMemoryAllReduce::SumByBlocks(
    Range range, ValueAt at,
    absl::FunctionRef<void(Range block, const float* sums)> take) const {
  alignas(kCacheLineBytes) std::array<float, kBlockCount> buffer;
  for (int64_t begin = range.begin; begin < range.end(); begin += kBlockCount) {
    const Range block = {.begin = begin,
                         .count = std::min(kBlockCount, range.end() - begin)};
    const auto sums = std::span(buffer).first(block.count);
    const auto term = [&](int position) -> const float* {
      return at(RingFoldRank(rank_, position, ranks_), begin);
    };
    AddTwo(term(0), term(1), sums.data(), block.count);
    for (int position = 2; position < ranks_; ++position) {
      AddInPlace(sums, {term(position), sums.size()});
    }
    take(block, sums.data());
  }
}

void SharedMemoryAllReduce::Count(OperationKind kind, const Floats& floats) {
  const TrafficKind traffic =
      kind == OperationKind::kBroadcast ? TrafficKind::kInitial : TrafficKind::kStep;
  counters_->CountIn(traffic, floats.in * int64_t{sizeof(float)});
  counters_->CountOut(traffic, floats.out * int64_t{sizeof(float)});
}

}  // namespace psring
