// The seam between training and the two architectures: gradients in, the parameters of
// the next step out. The training loop knows nothing else of either.
#ifndef PSRING_COMMON_GRADIENT_EXCHANGE_H_
#define PSRING_COMMON_GRADIENT_EXCHANGE_H_

#include <cstdint>
#include <optional>
#include <span>
#include <string>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/time/time.h"
#include "common/device_span.h"
#include "common/drift.h"
#include "common/layout.h"

namespace psring {

struct StepReport {
  // The run's work has all been begun: this worker makes no more steps.
  bool finished = false;
  // Time inside Finish spent in a local optimizer; the rest of Finish was waiting.
  absl::Duration optimizer = absl::ZeroDuration();
  // By bucket, on the exchange's clock: when it had no more to wait for, a local
  // optimizer aside. Valid until the next Launch.
  std::span<const absl::Duration> bucket_done = {};
  // By bucket, and as long valid: time between its launch and then in which it was added
  // up or applied, here or on a server; empty where nobody knows.
  std::span<const absl::Duration> bucket_working = {};
  // Collectives, or exchanges of a slot, that the step has taken.
  int64_t operations = 0;
  // How much of Finish is known to have been for another worker's gradients, and whose.
  absl::Duration peer_late = absl::ZeroDuration();
  std::optional<int> waited_for = std::nullopt;
  // The highest minus the lowest version among the slots of the parameters that the step
  // computed with; 0 where all parts move on together.
  int64_t version_skew = 0;
  // How far this worker's gradients of the step were changed by what they are on the
  // wire; none where that is fp32, or nothing is sent.
  std::optional<Drift> drift = std::nullopt;
};

// Payload bytes of this process so far.
struct ExchangeTraffic {
  int64_t payload_out = 0;
  int64_t payload_in = 0;
  // The first distribution of parameters, not part of the above.
  int64_t initial_out = 0;
  int64_t initial_in = 0;
  // Parameters fetched to be evaluated, not part of the above either.
  int64_t snapshot_out = 0;
  int64_t snapshot_in = 0;
  // Of the payload, and of the other two together: what went no further than to a peer on
  // the same host, or came from it.
  int64_t local_payload_out = 0;
  int64_t local_payload_in = 0;
  int64_t local_other_out = 0;
  int64_t local_other_in = 0;
  // Everything that its connections carried, framing included, where that is known.
  std::optional<int64_t> wire_out = std::nullopt;
  std::optional<int64_t> wire_in = std::nullopt;
  // What its links to peers cost, where somebody counts: time blocked until a peer's
  // bytes came, and until a peer took some; segments that the network had to be given
  // again.
  std::optional<absl::Duration> awaiting_bytes = std::nullopt;
  std::optional<absl::Duration> awaiting_room = std::nullopt;
  std::optional<int64_t> retransmissions = std::nullopt;
};

// One training thread calls Bind, Launch and Finish; any thread calls Abort and
// traffic. A call that does not fit is refused and changes nothing
// (common/exchange_order.h); after any other error every later call returns it.
class GradientExchange {
 public:
  virtual ~GradientExchange() = default;

  // The flat buffers that every later call works on; they outlive the exchange. Once,
  // before the first Launch, on every worker: blocks until all have worker 0's
  // parameters. Errors: kUnavailable, a peer was lost or stalled.
  virtual absl::Status Bind(DeviceSpan parameters, DeviceSpan gradients) = 0;

  // Starts to exchange one bucket, whose gradients are final once `ready` has happened
  // and whose parameters have no further use in this step; does not wait for any peer.
  // Once per bucket and step, in index order. The gradients must not change, nor the
  // parameters be read, until Finish has returned; after that the gradients hold nothing
  // of use.
  virtual absl::Status Launch(int64_t step, const Bucket& bucket,
                              const ReadyEvent& ready) = 0;

  // Blocks until every bucket of the step is done. OK: the bound parameters are those to
  // use next. `step` counts this worker's own, from 0. Errors as for Bind.
  virtual absl::StatusOr<StepReport> Finish(int64_t step) = 0;

  // Calls in flight and to come return `reason`, which is not OK. The first one counts.
  virtual void Abort(absl::Status reason) = 0;

  virtual ExchangeTraffic traffic() const = 0;

  // What of whom a Finish in flight waits for, for messages: "bucket 1 of left neighbour
  // worker 2 (...)"; empty while it waits for nobody. Any thread.
  virtual std::string Awaited() const = 0;
};

}  // namespace psring

#endif  // PSRING_COMMON_GRADIENT_EXCHANGE_H_
