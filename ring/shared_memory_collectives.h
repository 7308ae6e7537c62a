// Collectives between processes of one host, through memory that they share.
#ifndef PSRING_RING_SHARED_MEMORY_COLLECTIVES_H_
#define PSRING_RING_SHARED_MEMORY_COLLECTIVES_H_

#include <cstdint>
#include <memory>
#include <span>
#include <string>

#include "absl/functional/function_ref.h"
#include "absl/status/status.h"
#include "absl/time/time.h"
#include "common/device_span.h"
#include "common/gradient_exchange.h"
#include "common/link_counters.h"
#include "common/partition.h"
#include "common/ring_order.h"
#include "ring/collectives.h"
#include "ring/operation_header.h"
#include "ring/shared_memory_meeting.h"
#include "ring/shared_memory_segment.h"

namespace psring {

struct SharedMemoryOptions {
  // Of the segment's ranks, the same on all of them, with rank 0 first. Decides whose
  // chunk is whose and in which order sums are made.
  RingOrder order;
  // How long a rank waits for another at one point of an operation before it gives it up.
  // Longer than the slowest rank may lag behind the fastest.
  absl::Duration stall_timeout = absl::Seconds(60);
  SharedMemoryWait wait = SharedMemoryWait::kSleep;
};

// Works in the calling thread, and allocates nothing unless an operation fails.
//
// Floats alone: nothing goes over a wire, so fewer bits would save nothing.
//
// Values lie best in the segment's buffer, where the other ranks reach them. Those that
// lie elsewhere are passed through small slots, which is several times slower. Each rank
// may do as it likes, with the same result.
//
// After an error, values in the segment may still change until the other ranks'
// operations have ended too.
//
// Invariants, each with a test of its name:
//  1. FoldOrder: sums are made in the order of common/ring_order.h, on every rank bit for
//     bit, as by a ring over any transport.
//  2. PayloadIsTheFormula: payload bytes are those of shared_memory_traffic.h exactly.
//  3. NeverAWrongSum: ranks at different operations all get an error with both sides.
//  4. NobodyHangs: the end of a rank is an error that names it on all others.
class SharedMemoryCollectives final : public Collectives {
 public:
  SharedMemoryCollectives(std::shared_ptr<SharedMemorySegment> segment,
                          SharedMemoryOptions options);

  absl::Status AllReduce(OperationTag tag, Elements values) override;
  absl::Status ReduceScatter(OperationTag tag, Elements values) override;
  absl::Status AllGather(OperationTag tag, Elements values) override;
  absl::Status Broadcast(DeviceSpan values) override;
  absl::Status Barrier() override;

  void Abort(absl::Status reason) override { meeting_.Abort(reason); }
  // There are no connections, and so no bytes on any.
  ExchangeTraffic traffic() const override { return counters_.totals(); }
  // Of this rank, for all.
  absl::Duration working() const override { return working_; }
  // Those that have not come yet; empty while none is waited for.
  std::string Awaited() const override { return meeting_.Awaited(); }

 private:
  // Where all can read value `index` of a rank, and those that follow it.
  using ValueAt = absl::FunctionRef<float*(int rank, int64_t index)>;

  absl::Status Run(OperationKind kind, OperationTag tag, Elements values);
  absl::Status RunOnce(const OperationHeader& header, std::span<float> values);
  bool AllAreInSegment() const;
  absl::Status RunThroughSlots(OperationKind kind, std::span<float> values);
  // Does what this rank has to do for a piece of the values, and counts it together with
  // what the others do to its own.
  void TakePart(OperationKind kind, std::span<float> values, Range piece, ValueAt at);
  // Replaces a part of this rank's chunk by its sums, in the values of all ranks.
  void SumToAll(Range range, ValueAt at) const;
  // Hands on the sums of a part of this rank's chunk, block by block.
  void SumByBlocks(Range range, ValueAt at,
                   absl::FunctionRef<void(Range block, const float* sums)> take) const;
  void Count(OperationKind kind, int64_t floats_out, int64_t floats_in);

  const std::shared_ptr<SharedMemorySegment> segment_;
  const RingOrder order_;
  const int rank_;
  const int ranks_;
  const int position_;  // In the order; whose chunk is this rank's.
  LinkCounters counters_;
  SharedMemoryMeeting meeting_;

  // Only the thread that calls operations.
  uint64_t sequence_ = 0;  // Of the next one.
  int slot_ = 0;           // To be filled next.
  absl::Duration working_ = absl::ZeroDuration();
  absl::Status failure_;  // What every later call returns.
};

}  // namespace psring

#endif  // PSRING_RING_SHARED_MEMORY_COLLECTIVES_H_
