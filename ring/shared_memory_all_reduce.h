// All-reduce and its relatives between processes of one host.
#ifndef PSRING_RING_SHARED_MEMORY_ALL_REDUCE_H_
#define PSRING_RING_SHARED_MEMORY_ALL_REDUCE_H_

#include <cstdint>
#include <memory>
#include <span>
#include <string>

#include "absl/functional/function_ref.h"
#include "absl/status/status.h"
#include "absl/time/time.h"
#include "common/device_span.h"
#include "common/layout.h"
#include "common/link_counters.h"
#include "common/partition.h"
#include "ring/all_reducer.h"
#include "ring/operation_header.h"
#include "ring/shared_memory_meeting.h"
#include "ring/shared_memory_segment.h"

namespace psring {

struct SharedMemoryOptions {
  // How long a rank waits for another at one point of an operation before it gives it up.
  // Longer than the slowest rank may lag behind the fastest.
  absl::Duration stall_timeout = absl::Seconds(60);
  SharedMemoryWait wait = SharedMemoryWait::kSleep;
};

// Every rank calls the same operations in the same order; each blocks until this rank has
// its result and its values are its own again. Operations work in the calling thread, one
// at a time, and allocate nothing unless they fail. Any thread calls Abort and Awaited.
//
// Values are host memory, at best in the segment's buffer, where the other ranks reach
// them; elsewhere they are passed through small slots, which is several times slower.
// Each rank may do as it likes, with the same result.
//
// Errors as in ring/all_reducer.h and shared_memory_meeting.h. After one, every later
// call returns it, and values in the segment are undefined until the other ranks'
// operations have ended too.
//
// Invariants, each with a test of its name:
//  1. FoldOrder: sums are made in the order of common/ring_order.h, on every rank bit for
//     bit, and so are equal to RingAllReduce's.
//  2. PayloadIsTheFormula: payload bytes are those of shared_memory_traffic.h exactly.
//  3. NeverAWrongSum: ranks at different operations all get errors that show both sides.
//  4. NobodyHangs: the end of a rank is an error that names it on all others.
class SharedMemoryAllReduce final : public AllReducer {
 public:
  // The counters outlive this.
  SharedMemoryAllReduce(std::shared_ptr<SharedMemorySegment> segment,
                        LinkCounters* counters, SharedMemoryOptions options);

  absl::Status Sum(int64_t step, const Bucket& bucket, DeviceSpan values) override;

  // As Sum, for the chunk PartitionRange(count, ranks, rank) only; the rest is undefined.
  absl::Status ReduceScatter(int64_t step, const Bucket& bucket, DeviceSpan values);
  // Completes the values by every other rank's chunk.
  absl::Status AllGather(int64_t step, const Bucket& bucket, DeviceSpan values);
  // Replaces the values by rank 0's. Counted as TrafficKind::kInitial.
  absl::Status Broadcast(DeviceSpan values);
  // Returns once every rank has called it.
  absl::Status Barrier();

  // Calls in flight and to come return `reason`, which is not OK, and on other ranks an
  // error with it. The first one counts.
  void Abort(const absl::Status& reason) { meeting_.Abort(reason); }

  // Those that an operation in flight waits for, for messages; empty for nobody.
  std::string Awaited() const { return meeting_.Awaited(); }

 private:
  struct Floats {
    int64_t out = 0;
    int64_t in = 0;
  };
  // Where all can read value `index` of a rank and those that follow it.
  using ValueAt = absl::FunctionRef<float*(int rank, int64_t index)>;

  absl::Status Run(OperationHeader header, DeviceSpan values);
  absl::Status RunOnce(const OperationHeader& header, std::span<float> values);
  bool AllAreInSegment() const;
  absl::Status RunThroughSlots(OperationKind kind, std::span<float> values);
  // Does what this rank has to do for a piece of the values, and counts it together with
  // what the others do to its own.
  void TakePart(OperationKind kind, std::span<float> values, Range piece, ValueAt at);
  // Replaces a part of this rank's chunk by its sums, in the values of all ranks.
  void SumToAll(Range range, ValueAt at) const;
  // Hands on the sums of a part of this rank's chunk.
  void SumByBlocks(Range range, ValueAt at,
                   absl::FunctionRef<void(Range block, const float* sums)> take) const;
  void Count(OperationKind kind, const Floats& floats);

  const std::shared_ptr<SharedMemorySegment> segment_;
  const int rank_;
  const int ranks_;
  LinkCounters* const counters_;
  SharedMemoryMeeting meeting_;

  uint64_t sequence_ = 0;  // Of the next operation.
  int slot_ = 0;           // To be filled next.
  absl::Status failure_;   // What every later call returns.
};

}  // namespace psring

#endif  // PSRING_RING_SHARED_MEMORY_ALL_REDUCE_H_
