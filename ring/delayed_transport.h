// Links with a delay, emulated.
#ifndef PSRING_RING_DELAYED_TRANSPORT_H_
#define PSRING_RING_DELAYED_TRANSPORT_H_

#include <chrono>
#include <cstddef>
#include <map>
#include <memory>
#include <optional>
#include <thread>
#include <vector>

#include "common/mutex.h"
#include "common/time_source.h"
#include "ring/delay_line.h"
#include "ring/pipe.h"
#include "ring/transport.h"

namespace psring {

// Hands each byte to the transport below it a fixed time after it has taken it. Bytes do
// not wait for one another, so a delay costs no throughput where the link may hold as
// much as it carries in that time. What ranks say beside their payload is not delayed;
// the reason of an Abort reaches peers behind what was taken before.
//
// A thread of its own uses the transport below, so that bytes leave when they are due,
// whatever the rank does then, and wait here for the rank when they have come. Each is
// copied twice.
//
// The destructor blocks until all that was taken has left. It gives up on bytes that are
// due where no peer has taken any for 10 s, or for 1 s after an Abort.
class DelayedTransport final : public Transport {
 public:
  struct Options {
    // To each peer. What it sends is delayed at its end.
    std::map<int, absl::Duration> delays;
    // Held at most on the way to each peer, and up to 1 MiB of what has come from each;
    // at least 1.
    size_t most_held_bytes = 0;
  };

  // `time` outlives this.
  DelayedTransport(std::unique_ptr<Transport> transport, Options options,
                   const TimeSource* time);
  ~DelayedTransport() override;

 private:
  struct Line {
    absl::Duration delay;
    DelayLine out;
    Pipe in;
    // OK, or why nothing leaves any more; and why nothing comes behind what is in `in`.
    absl::Status lost;
    absl::Status ended;
  };

  absl::StatusOr<size_t> DoTrySend(int peer, std::span<const std::byte> first,
                                   std::span<const std::byte> second) override;
  absl::StatusOr<size_t> DoTryReceive(int peer, std::span<std::byte> first,
                                      std::span<std::byte> second) override;
  absl::StatusOr<Cause> DoWait(std::span<const Interest> interests,
                               absl::Duration timeout) override;
  void DoWake() override;
  void DoSayWaiting(bool waiting) override;
  bool DoSaysWaiting(int peer) override;
  void DoAbort(const Failure& reason) override;
  int64_t DoRetransmissions(int peer) const override;

  // The thread's.
  void Run();
  bool SendDue(int peer);  // Whether a byte moved; so does Receive.
  bool Receive(int peer);
  void Speak();  // What was asked of it beside the payload.
  // Blocks until there may be something to do; false once there is nothing any more.
  bool Await();
  void FindLost(const absl::Status& error);

  std::optional<absl::Duration> PlanWaitLocked() ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  void LoseLocked(Line& line, const absl::Status& why)
      ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  void WakeThreadLocked() ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);

  const TimeSource* const time_;
  const std::unique_ptr<Transport> transport_;  // The thread's, but for Wake and Abort.

  // The thread's.
  std::vector<std::byte> received_;
  std::vector<Interest> interests_;

  Mutex mutex_;
  CondVar changed_;                                    // Anything below.
  std::map<int, Line> lines_ ABSL_GUARDED_BY(mutex_);  // By peer.
  bool woken_ ABSL_GUARDED_BY(mutex_) = false;  // By a Wake that no wait has taken yet.
  std::optional<Failure> abort_reason_ ABSL_GUARDED_BY(mutex_);  // Once aborted.
  bool closing_ ABSL_GUARDED_BY(mutex_) = false;
  // At the end: since when bytes are due that no peer takes.
  std::optional<std::chrono::steady_clock::time_point> stuck_since_
      ABSL_GUARDED_BY(mutex_);
  // When the thread looks again by itself; the distant past while it is not waiting.
  absl::Duration wakes_ ABSL_GUARDED_BY(mutex_) = -absl::InfiniteDuration();
  std::optional<bool> say_waiting_ ABSL_GUARDED_BY(mutex_);  // To be said.
  std::optional<int> ask_ ABSL_GUARDED_BY(mutex_);           // Whether this peer waits.
  bool answer_ ABSL_GUARDED_BY(mutex_) = false;              // To that.

  std::thread thread_;
};

}  // namespace psring

#endif  // PSRING_RING_DELAYED_TRANSPORT_H_
