// The seam between the collectives and what carries their bytes.
#ifndef PSRING_RING_TRANSPORT_H_
#define PSRING_RING_TRANSPORT_H_

#include <atomic>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/time/time.h"
#include "common/mutex.h"
#include "proto/coordinator.pb.h"

namespace psring {

// Bytes that crossed the links of a rank, framing of ours included.
struct WireBytes {
  int64_t out = 0;
  int64_t in = 0;
};

// What one link has carried and cost so far.
struct LinkTotals {
  WireBytes wire;
  // Time blocked until the peer's bytes came, and until it took some: what ended a wait
  // is its cause.
  absl::Duration awaiting_bytes = absl::ZeroDuration();
  absl::Duration awaiting_room = absl::ZeroDuration();
  // Segments that the network had to be given again; 0 where nobody counts them.
  int64_t retransmissions = 0;
};

// What a rank that waits still has for a peer.
enum class SendInterest {
  kNone,   // Nothing any more: the peer may have left.
  kLater,  // Nothing now, but more to come: the peer must still be there.
  kNow,    // Bytes at hand: wake up when some can be taken.
};

struct Interest {
  int peer = 0;
  SendInterest send = SendInterest::kNone;
  bool receive = false;
};

// One rank's links to its peers: to each a byte stream there and one back, reliable, in
// order and without message boundaries. Connected when made; destroying it closes all,
// and bytes already taken are still delivered.
//
// One thread uses it, except for Wake, Abort and totals. Peers are ranks; a call that
// names one without a link is a bug. Errors are final for the transport:
//   kUnavailable: the peer that the message names closed the connection or is lost.
//   the peer's own reason, where it left by an Abort: IsRelayed, and word by word the
//     same on every rank that hears of it. (kUnavailable for a reason of kCancelled.)
//   the reason given to Abort.
class Transport {
 public:
  virtual ~Transport() = default;
  Transport(const Transport&) = delete;
  Transport& operator=(const Transport&) = delete;

  int rank() const { return rank_; }

  // Takes a first part of the bytes of both pieces together, which are not both empty;
  // returns how many bytes it took. 0: the link is full for now.
  absl::StatusOr<size_t> TrySend(int peer, std::span<const std::byte> first,
                                 std::span<const std::byte> second = {});

  // Fills a first part of both pieces together, which are not both empty; returns how
  // many bytes. 0: none has come yet.
  absl::StatusOr<size_t> TryReceive(int peer, std::span<std::byte> first,
                                    std::span<std::byte> second = {});

  // Blocks until something that is wanted may happen (or would report an error): bytes
  // to receive, or room to send where kNow. May wake early. kDeadlineExceeded: `timeout`
  // passed first, and nothing is lost. An error too where a peer has left that is still
  // needed: every one but those with kNone. Interests are not empty.
  absl::Status Wait(std::span<const Interest> interests, absl::Duration timeout);

  // From any thread: a Wait in flight, or else the next one, returns early.
  void Wake();

  // Tells every peer that this rank is alive and waits for others, or no longer does; and
  // whether a peer has said so of itself. Such words pass payload that is on its way.
  void SayWaiting(bool waiting);
  bool SaysWaiting(int peer);

  // From any thread: calls in flight and to come return `reason`, which is not OK, all
  // connections are closed, and peers are told the reason. The first one counts.
  void Abort(absl::Status reason);

  // Any thread.
  LinkTotals totals(int peer) const;
  LinkTotals totals() const;  // Of all links.
  // Whether that is everything that its connections carried; otherwise the carrier has
  // framing of its own.
  bool counts_framing() const { return counts_framing_; }

  // For messages: "worker 2 (10.0.0.2:4711)".
  const std::string& name(int peer) const { return LinkTo(peer).name; }
  const std::vector<int>& peers() const { return peers_; }

  struct Peer {
    int rank = 0;
    std::string name;
    WireBytes opening = {};  // Bytes that it took to connect.
  };

 protected:
  // What ended a wait, if anything that was waited for did.
  struct Cause {
    int peer = -1;
    bool room = false;
  };

  Transport(int rank, std::span<const Peer> peers, bool counts_framing = true);

  // The error of implementations whose connection to the peer has ended: with the reason
  // that the peer gave, or with `cause`.
  absl::Status LostError(int peer, const std::optional<Failure>& reason,
                         absl::string_view cause) const;
  // True before DoAbort is called.
  bool aborted() const { return aborted_.load(std::memory_order_acquire); }

 private:
  struct Link {
    std::string name;
    std::atomic<int64_t> out{0};
    std::atomic<int64_t> in{0};
    std::atomic<int64_t> awaiting_bytes_ns{0};
    std::atomic<int64_t> awaiting_room_ns{0};
  };

  // As their public namesakes, without counting. Abort and Wake may run at the same time
  // as any of them, and after an Abort they may return what they like.
  virtual absl::StatusOr<size_t> DoTrySend(int peer, std::span<const std::byte> first,
                                           std::span<const std::byte> second) = 0;
  virtual absl::StatusOr<size_t> DoTryReceive(int peer, std::span<std::byte> first,
                                              std::span<std::byte> second) = 0;
  virtual absl::StatusOr<Cause> DoWait(std::span<const Interest> interests,
                                       absl::Duration timeout) = 0;
  virtual void DoWake() = 0;
  virtual void DoSayWaiting(bool waiting) = 0;
  virtual bool DoSaysWaiting(int peer) = 0;
  // Tells the peers the reason, wakes a DoWait in flight, lets none block any more, and
  // closes all connections. Called at most once.
  virtual void DoAbort(const Failure& reason) = 0;
  virtual int64_t DoRetransmissions(int peer) const = 0;

  absl::Status AbortReason() const;
  Link& LinkTo(int peer) const;

  const int rank_;
  const bool counts_framing_;
  std::vector<int> peers_;
  std::vector<std::unique_ptr<Link>> links_;  // By rank; null where there is none.

  // True only after abort_reason_ has been set: spares the common case the lock.
  std::atomic<bool> aborted_{false};
  mutable Mutex mutex_;
  absl::Status abort_reason_ ABSL_GUARDED_BY(mutex_);
};

// Whether a transport's error is a reason that some rank gave, passed on.
bool IsRelayed(const absl::Status& status);

}  // namespace psring

#endif  // PSRING_RING_TRANSPORT_H_
