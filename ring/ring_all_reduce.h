// All-reduce and broadcast round a ring.
#ifndef PSRING_RING_RING_ALL_REDUCE_H_
#define PSRING_RING_RING_ALL_REDUCE_H_

#include <cstddef>
#include <cstdint>
#include <memory>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/time/time.h"
#include "common/device_span.h"
#include "common/layout.h"
#include "common/link_counters.h"
#include "ring/all_reducer.h"
#include "ring/transport.h"

namespace psring {

struct RingOptions {
  // How long a rank inside an operation goes without moving a byte before it gives its
  // neighbour up. Longer than the slowest rank may lag behind the fastest.
  absl::Duration stall_timeout = absl::Seconds(60);
  // The same on all ranks of a ring and different for others (common/job_plan.h).
  uint64_t job_fingerprint = 0;
};

// Not thread-safe; one operation at a time, and the same ones in the same order on every
// rank. Works in the calling thread, and allocates nothing after construction unless an
// operation fails.
//
// Invariants, each with a test of its name:
//  1. FoldOrder: an element of chunk c is ((x_{c+1} + x_{c+2}) + ...) + x_c, in the order
//     of common/ring_order.h, on every rank bit for bit.
//  2. PayloadIsTheFormula: payload bytes are AllReduceBytes and BroadcastBytes exactly.
//  3. NeverAWrongSum: ranks at different operations get errors on both sides.
//  4. NobodyHangs: a rank that fails aborts its transport, so that its neighbours fail.
class RingAllReduce final : public AllReducer {
 public:
  // `transport` is this rank's of `ranks`, and null only for ranks == 1, where there is
  // nothing to do. Transport and counters outlive this.
  RingAllReduce(int rank, int ranks, Transport* transport, LinkCounters* counters,
                RingOptions options);
  ~RingAllReduce() override;

  // Host memory. Counted as TrafficKind::kStep.
  absl::Status Sum(int64_t step, const Bucket& bucket, DeviceSpan values) override;

  // Replaces the values by rank 0's; the same count on every rank. When it returns on
  // rank 0, all ranks have them; on others, this rank has and its right has been served.
  // Errors as for Sum. Counted as TrafficKind::kInitial.
  absl::Status Broadcast(DeviceSpan values);

 private:
  struct Operation;
  struct Flow;
  struct Staging;

  absl::Status Run(const Operation& operation);
  absl::Status MoveAll(const Operation& operation, Flow& flow);
  absl::StatusOr<size_t> SendSome(const Operation& operation, Flow& flow);
  absl::StatusOr<size_t> ReceiveSome(const Operation& operation, Flow& flow);
  absl::StatusOr<size_t> ReceiveHeader(const Operation& operation, Flow& flow);
  absl::Status StalledError(const Operation& operation, const Flow& flow) const;

  const int rank_;
  const int ranks_;
  Transport* const transport_;
  LinkCounters* const counters_;
  const RingOptions options_;

  const std::unique_ptr<Staging> staging_;
  uint64_t sequence_ = 0;  // Of the next operation.
  absl::Status failure_;   // What every later call returns.
};

}  // namespace psring

#endif  // PSRING_RING_RING_ALL_REDUCE_H_
