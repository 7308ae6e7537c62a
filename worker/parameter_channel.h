// From one worker to one parameter server.
#ifndef PSRING_WORKER_PARAMETER_CHANNEL_H_
#define PSRING_WORKER_PARAMETER_CHANNEL_H_

#include <cstdint>
#include <functional>
#include <span>

#include "absl/functional/function_ref.h"
#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/time/time.h"
#include "common/float_pieces.h"
#include "common/slot_plan.h"

namespace psring {

// What comes with parameters; but for `delayed` as the fields of ParameterAnswer
// (proto/parameter_server.proto).
struct Pulled {
  int64_t version = 0;
  int64_t step = 0;
  bool finished = false;
  absl::Duration parked = absl::ZeroDuration();
  int released_by = 0;  // Where parked.
  absl::Duration working = absl::ZeroDuration();
  // How long the channel itself has held the answer back, to emulate a link's delay.
  absl::Duration delayed = absl::ZeroDuration();
};

// What comes with a snapshot's parameters.
struct SnapshotInfo {
  int64_t version = 0;
  // When it was taken, on the server's clock since the start barrier.
  absl::Duration time = absl::ZeroDuration();
};

// Requests return at once and are done exactly once, in any order, in any thread or
// before the call has returned; a deadline of the channel's bounds each. Slots are this
// server's, spans of floats have the slot's size; a span stays valid (and, where it is
// read, unchanged) until its request is done, after which the channel does not touch it.
//
// Errors: kUnavailable (PeerLostError), the server or a worker it waited for is lost or
// stalled; any other that the server answered; or the reason of an Abort. Each names the
// server, the slot and what was awaited.
//
// Thread-safe. The destructor aborts and returns when every request is done and its
// callback has returned; so it is not run by a callback.
class ParameterChannel {
 public:
  using Done = std::function<void(const absl::Status& status)>;
  // Of a pull, or of an exchange, which pulls as well.
  using PullDone = std::function<void(const absl::StatusOr<Pulled>& pulled)>;
  using SnapshotDone = std::function<void(const absl::StatusOr<SnapshotInfo>& snapshot)>;

  virtual ~ParameterChannel() = default;

  // Sets a slot's parameters at version 0; worker 0 only.
  virtual void Initialize(const Slot& slot, std::span<const float> parameters,
                          Done done) = 0;
  // Fetches the parameters for `step`; done when the consistency policy lets them go. The
  // span's content is undefined after an error.
  virtual void Pull(const Slot& slot, int64_t step, std::span<float> parameters,
                    PullDone done) = 0;
  // Hands in the contribution to `step`, computed from `version`, and fetches the
  // parameters for `step` + 1 as Pull does, in one message. `gradient` is what the slot's
  // is on the wire (common/wire_type.h). Repeating it adds nothing to the slot, and
  // fetches again. The spans do not overlap.
  virtual void Exchange(const Slot& slot, int64_t step, int64_t version, Bytes gradient,
                        std::span<float> parameters, PullDone done) = 0;
  // Fetches the parameters as they were after `step` steps of all workers.
  virtual void Snapshot(const Slot& slot, int64_t step, std::span<float> parameters,
                        SnapshotDone done) = 0;
  // This worker will contribute no more.
  virtual void Leave(Done done) = 0;

  // A caller that awaits its requests may do it in place of a thread of the channel,
  // which saves the latency of waking both. Lend says that the requests which follow are
  // awaited so: Drive, which ends it, is to come next; until then they may be sent, but
  // none may be done. Drive gives the calling thread to the channel, whose callbacks it
  // then runs, until `done`, which is asked between two of them. It may return before:
  // where another thread works already, or the channel has no use for a caller's, as is
  // the default.
  virtual void Lend() {}
  virtual void Drive(absl::FunctionRef<bool()> done) { static_cast<void>(done); }

  // Requests in flight and to come are done with `reason`, which is not OK; the first one
  // counts.
  virtual void Abort(const absl::Status& reason) = 0;
};

}  // namespace psring

#endif  // PSRING_WORKER_PARAMETER_CHANNEL_H_
