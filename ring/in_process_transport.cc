#include "ring/in_process_transport.h"

#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "glog/logging.h"
#include "ring/pipe.h"

namespace psring {
namespace {

// What the ranks share. One lock for all: it is held for a copy of at most one link's
// bytes, and closing concerns many links at once.
struct Shared {
  struct Station {
    CondVar changed;                // Something this rank may wait for has happened.
    bool woken = false;             // By a Wake that no wait has taken yet.
    bool left = false;              // Its transport was aborted or destroyed.
    std::optional<Failure> reason;  // Of the abort.
    bool waiting = false;           // As it says.
    std::vector<Pipe> from;         // By the rank that sends.
  };

  Shared(int ranks, size_t link_bytes) : stations(ranks) {
    for (Station& station : stations) {
      station.from.resize(ranks);
      for (Pipe& pipe : station.from) pipe.Resize(link_bytes);
    }
  }

  Mutex mutex;
  std::vector<Station> stations ABSL_GUARDED_BY(mutex);
};

std::vector<Transport::Peer> PeersOf(int rank, int ranks) {
  std::vector<Transport::Peer> peers;
  for (int peer = 0; peer < ranks; ++peer) {
    if (peer != rank) peers.push_back({peer, absl::StrCat("worker ", peer)});
  }
  return peers;
}

class InProcessTransport final : public Transport {
 public:
  InProcessTransport(std::shared_ptr<Shared> shared, int rank, int ranks)
      : Transport(rank, PeersOf(rank, ranks)), shared_(std::move(shared)) {}

  ~InProcessTransport() override { Leave(std::nullopt); }

 private:
  absl::StatusOr<size_t> DoTrySend(int peer, std::span<const std::byte> first,
                                   std::span<const std::byte> second) override {
    MutexLock lock(&shared_->mutex);
    Shared::Station& to = shared_->stations[peer];
    if (to.left) return ClosedErrorLocked(peer);
    Pipe& pipe = to.from[rank()];
    size_t taken = pipe.Put(first);
    if (taken == first.size()) taken += pipe.Put(second);
    if (taken > 0) to.changed.NotifyAll();
    return taken;
  }

  absl::StatusOr<size_t> DoTryReceive(int peer, std::span<std::byte> first,
                                      std::span<std::byte> second) override {
    MutexLock lock(&shared_->mutex);
    Shared::Station& from = shared_->stations[peer];
    Pipe& pipe = shared_->stations[rank()].from[peer];
    if (pipe.empty() && from.left) return ClosedErrorLocked(peer);
    size_t taken = pipe.Take(first);
    if (taken == first.size()) taken += pipe.Take(second);
    if (taken > 0) from.changed.NotifyAll();
    return taken;
  }

  absl::StatusOr<Cause> DoWait(std::span<const Interest> interests,
                               absl::Duration timeout) override {
    const auto deadline = SteadyDeadline(timeout);
    MutexLock lock(&shared_->mutex);
    Shared::Station& own = shared_->stations[rank()];
    for (bool timed_out = false;;) {
      // Where aborted, the caller knows why.
      if (own.left || std::exchange(own.woken, false)) return Cause{};
      for (const Interest& interest : interests) {
        const Shared::Station& peer = shared_->stations[interest.peer];
        if (interest.send != SendInterest::kNone && peer.left) {
          return ClosedErrorLocked(interest.peer);
        }
        if (interest.receive && (peer.left || !own.from[interest.peer].empty())) {
          return Cause{.peer = interest.peer};
        }
        if (interest.send == SendInterest::kNow && !peer.from[rank()].full()) {
          return Cause{.peer = interest.peer, .room = true};
        }
      }
      if (timed_out) return absl::DeadlineExceededError("nothing moved");
      timed_out = own.changed.WaitUntil(&shared_->mutex, deadline);
    }
  }

  void DoWake() override {
    MutexLock lock(&shared_->mutex);
    Shared::Station& own = shared_->stations[rank()];
    own.woken = true;
    own.changed.NotifyAll();
  }

  void DoSayWaiting(bool waiting) override {
    MutexLock lock(&shared_->mutex);
    shared_->stations[rank()].waiting = waiting;
  }

  bool DoSaysWaiting(int peer) override {
    MutexLock lock(&shared_->mutex);
    return shared_->stations[peer].waiting;
  }

  void DoAbort(const Failure& reason) override { Leave(reason); }

  int64_t DoRetransmissions(int) const override { return 0; }

  void Leave(const std::optional<Failure>& reason) {
    MutexLock lock(&shared_->mutex);
    Shared::Station& own = shared_->stations[rank()];
    if (!own.left) own.reason = reason;
    own.left = true;
    for (Shared::Station& station : shared_->stations) station.changed.NotifyAll();
  }

  absl::Status ClosedErrorLocked(int peer) const
      ABSL_EXCLUSIVE_LOCKS_REQUIRED(shared_->mutex) {
    return LostError(peer, shared_->stations[peer].reason, "closed the connection");
  }

  const std::shared_ptr<Shared> shared_;
};

}  // namespace

std::vector<std::unique_ptr<Transport>> MakeInProcessTransports(int ranks,
                                                                size_t link_bytes) {
  CHECK_GE(ranks, 2);
  CHECK_GE(link_bytes, 1u);
  const auto shared = std::make_shared<Shared>(ranks, link_bytes);
  std::vector<std::unique_ptr<Transport>> transports;
  for (int rank = 0; rank < ranks; ++rank) {
    transports.push_back(std::make_unique<InProcessTransport>(shared, rank, ranks));
  }
  return transports;
}

}  // namespace psring
