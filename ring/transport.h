// The seam between the ring and what carries its bytes.
#ifndef PSRING_RING_TRANSPORT_H_
#define PSRING_RING_TRANSPORT_H_

#include <atomic>
#include <cstddef>
#include <cstdint>
#include <span>
#include <string>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/time/time.h"
#include "common/mutex.h"

namespace psring {

// Bytes that crossed a rank's two links, framing included.
struct WireBytes {
  int64_t out = 0;
  int64_t in = 0;
};

// What a rank that waits still has for its right neighbour.
enum class SendInterest {
  kNone,   // Nothing any more: the neighbour may have left.
  kLater,  // Nothing now, but more to come: the neighbour must still be there.
  kNow,    // Bytes at hand: wake up when some can be taken.
};

// One rank's place in a ring: a byte stream out to the right neighbour and one in from
// the left, both reliable, in order and without message boundaries. Connected when made;
// destroying it closes both, and bytes already taken are still delivered.
//
// One thread uses it, except for Abort and wire(). Errors are final for the transport:
//   kUnavailable: the neighbour that the message names closed the connection or is lost.
//   the reason given to Abort.
class Transport {
 public:
  virtual ~Transport() = default;
  Transport(const Transport&) = delete;
  Transport& operator=(const Transport&) = delete;

  // Takes a first part of `bytes`, which are not empty; returns how many bytes it took.
  // 0: the link is full for now.
  absl::StatusOr<size_t> TrySend(std::span<const std::byte> bytes);

  // Fills a first part of `buffer`, which is not empty; returns how many bytes.
  // 0: none has come yet.
  absl::StatusOr<size_t> TryReceive(std::span<std::byte> buffer);

  // Blocks until a wanted direction may move (or would report an error): bytes to
  // receive if `receive`, room to send if kNow. May wake early. kDeadlineExceeded:
  // `timeout` passed first, and nothing is lost. kUnavailable, unless kNone: the right
  // neighbour has left.
  absl::Status Wait(SendInterest send, bool receive, absl::Duration timeout);

  // From any thread: calls in flight and to come return `reason`, which is not OK, and
  // both neighbours find their connection closed. The first one counts.
  void Abort(absl::Status reason);

  // Any thread.
  WireBytes wire() const;

  // For messages: "left neighbour worker 2 (10.0.0.2:4711)".
  const std::string& left() const { return left_; }
  const std::string& right() const { return right_; }

 protected:
  // `opening`: bytes that it took to connect.
  Transport(std::string left, std::string right, WireBytes opening);

 private:
  // As their public namesakes, without counting. Abort may run at the same time as any
  // of them, and they may then return what they like.
  virtual absl::StatusOr<size_t> DoTrySend(std::span<const std::byte> bytes) = 0;
  virtual absl::StatusOr<size_t> DoTryReceive(std::span<std::byte> buffer) = 0;
  virtual absl::Status DoWait(SendInterest send, bool receive,
                              absl::Duration timeout) = 0;
  // Wakes a DoWait in flight, lets none block any more, and closes both connections.
  // Called at most once.
  virtual void DoAbort() = 0;

  absl::Status AbortReason() const;

  const std::string left_;
  const std::string right_;
  std::atomic<int64_t> wire_out_;
  std::atomic<int64_t> wire_in_;

  // True only after abort_reason_ has been set: spares the common case the lock.
  std::atomic<bool> aborted_{false};
  mutable Mutex mutex_;
  absl::Status abort_reason_ ABSL_GUARDED_BY(mutex_);
};

// The errors of implementations; `neighbour` is left() or right().
absl::Status NeighbourClosedError(const std::string& neighbour);

}  // namespace psring

#endif  // PSRING_RING_TRANSPORT_H_
