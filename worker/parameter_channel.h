// From one worker to one parameter server.
#ifndef PSRING_WORKER_PARAMETER_CHANNEL_H_
#define PSRING_WORKER_PARAMETER_CHANNEL_H_

#include <cstdint>
#include <functional>
#include <span>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "common/slot_plan.h"

namespace psring {

// Requests return at once and are done exactly once, in any order, in any thread or
// before the call has returned; a deadline of the channel's bounds each. Slots are this
// server's, spans of the slot's size; a span stays valid (and, where it is read,
// unchanged) until its request is done, after which the channel does not touch it.
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
  // The version of the parameters that were written to the span.
  using PullDone = std::function<void(const absl::StatusOr<int64_t>& version)>;

  virtual ~ParameterChannel() = default;

  // Sets a slot's parameters at version 0; worker 0 only.
  virtual void Initialize(const Slot& slot, std::span<const float> parameters,
                          Done done) = 0;
  // Done when the server holds the contribution.
  virtual void Push(const Slot& slot, int64_t step, std::span<const float> gradient,
                    Done done) = 0;
  // Fetches the parameters for `step`; done when the consistency policy lets them go. The
  // span's content is undefined after an error.
  virtual void Pull(const Slot& slot, int64_t step, std::span<float> parameters,
                    PullDone done) = 0;

  // Requests in flight and to come are done with `reason`, which is not OK; the first one
  // counts.
  virtual void Abort(const absl::Status& reason) = 0;
};

}  // namespace psring

#endif  // PSRING_WORKER_PARAMETER_CHANNEL_H_
