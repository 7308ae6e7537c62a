// The way to a parameter server over links with a delay, emulated.
#ifndef PSRING_WORKER_DELAYED_PARAMETER_CHANNEL_H_
#define PSRING_WORKER_DELAYED_PARAMETER_CHANNEL_H_

#include <cstdint>
#include <deque>
#include <functional>
#include <memory>
#include <span>
#include <thread>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/time/time.h"
#include "common/mutex.h"
#include "common/time_source.h"
#include "worker/parameter_channel.h"

namespace psring {

// Hands each request to the channel below it `delay` later, and its outcome to the caller
// `delay` after that channel has. Requests do not wait for one another, and nothing is
// copied: the spans are the channel's meanwhile. A thread of its own makes the calls and
// runs the callbacks, in the order in which they are due.
class DelayedParameterChannel final : public ParameterChannel {
 public:
  // `time` outlives this.
  DelayedParameterChannel(std::unique_ptr<ParameterChannel> channel, absl::Duration delay,
                          const TimeSource* time);
  ~DelayedParameterChannel() override;

  void Initialize(const Slot& slot, std::span<const float> parameters,
                  Done done) override;
  void Pull(const Slot& slot, int64_t step, std::span<float> parameters,
            PullDone done) override;
  void Exchange(const Slot& slot, int64_t step, int64_t version, Bytes gradient,
                std::span<float> parameters, PullDone done) override;
  void Snapshot(const Slot& slot, int64_t step, std::span<float> parameters,
                SnapshotDone done) override;
  void Leave(Done done) override;
  void Abort(const absl::Status& reason) override;

 private:
  // Either way of a request: is given OK when it is due, or the reason of an Abort.
  using Arrive = std::function<void(const absl::Status& aborted)>;
  struct Message {
    absl::Duration due;
    Arrive arrive;
  };

  // Sends a request: `call` makes it of the channel below, with a callback that brings
  // the outcome back to `done`.
  template <typename Outcome>
  void Request(std::function<void(std::function<void(const Outcome&)>)> call,
               std::function<void(const Outcome&)> done);
  // The callback of a pull, with Pulled::delayed filled in.
  PullDone NotingDelay(PullDone done) const;
  void Send(Arrive arrive);
  void SendLocked(Arrive arrive) ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  void Run();

  const absl::Duration delay_;
  const TimeSource* const time_;

  Mutex mutex_;
  CondVar changed_;
  // Requests and outcomes alike; all take as long, so this is the order they are due in.
  std::deque<Message> messages_ ABSL_GUARDED_BY(mutex_);
  int64_t below_ ABSL_GUARDED_BY(mutex_) = 0;     // Requests that have no outcome yet.
  absl::Status aborted_ ABSL_GUARDED_BY(mutex_);  // OK until aborted.
  bool closing_ ABSL_GUARDED_BY(mutex_) = false;

  // Its callbacks use the members above.
  const std::unique_ptr<ParameterChannel> channel_;
  std::thread thread_;
};

}  // namespace psring

#endif  // PSRING_WORKER_DELAYED_PARAMETER_CHANNEL_H_
