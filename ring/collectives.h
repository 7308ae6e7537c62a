// The seam between what ranks do together and how they do it.
#ifndef PSRING_RING_COLLECTIVES_H_
#define PSRING_RING_COLLECTIVES_H_

#include <cstdint>
#include <string>

#include "absl/status/status.h"
#include "absl/time/time.h"
#include "common/device_span.h"
#include "common/gradient_exchange.h"
#include "ring/elements.h"

namespace psring {

// What an operation is about; the same on all ranks. For messages, and so that ranks
// which are not at the same operation find out.
struct OperationTag {
  int64_t step = 0;
  int bucket = 0;
};

// One rank's part in the operations of all: every rank calls the same ones, with the same
// tags and counts, in the same order. All work in place, in host memory, on any count and
// any alignment of whole elements, and block until this rank has its result. Of N chunks,
// chunk p is PartitionRange(count, N, p), and belongs to the rank at position p of the
// ring (common/ring_order.h).
//
// One thread, one operation at a time; Abort, traffic and Awaited from any thread.
//   kUnavailable: a rank is lost or stalled; the message names it, on every rank.
//   kFailedPrecondition: ranks are at different operations; the message shows both sides,
//     on every rank. No sum is made of such values.
//   the reason given to Abort.
// After an error the values are undefined, and every later call returns it.
class Collectives {
 public:
  virtual ~Collectives() = default;

  // The sums over all ranks: on every rank the same bits. Sums of numbers of 16 bits are
  // rounded at every addition. Here and below kUnimplemented: not for elements of that
  // type.
  virtual absl::Status AllReduce(OperationTag tag, Elements values) = 0;
  // The sums of this rank's chunk; the other values are undefined.
  virtual absl::Status ReduceScatter(OperationTag tag, Elements values) = 0;
  // Every rank's chunk as it is there.
  virtual absl::Status AllGather(OperationTag tag, Elements values) = 0;
  // The values of rank 0. When it returns on rank 0, all ranks have them. Counted as
  // initial traffic, everything else as that of a step.
  virtual absl::Status Broadcast(DeviceSpan values) = 0;
  // Returns when every rank has called it. No payload.
  virtual absl::Status Barrier() = 0;

  // Calls in flight and to come return `reason`, which is not OK, and fail on the other
  // ranks. The first one counts.
  virtual void Abort(absl::Status reason) = 0;

  virtual ExchangeTraffic traffic() const = 0;
  // How long the operations so far have added values up. The thread's that calls them.
  virtual absl::Duration working() const = 0;
  // Whom an operation may wait for, for messages: "worker 0 (10.0.0.2:4711) and worker 2
  // (10.0.0.4:4711)".
  virtual std::string Awaited() const = 0;
};

}  // namespace psring

#endif  // PSRING_RING_COLLECTIVES_H_
