#include "ring/in_process_transport.h"

#include <algorithm>
#include <chrono>
#include <cstring>
#include <utility>

#include "absl/strings/str_cat.h"
#include "glog/logging.h"
#include "ring/ring_schedule.h"

namespace psring {
namespace {

// What the ranks share. One lock for the whole ring: it is held for a copy of at most
// one link's bytes, and closing concerns two links at once.
struct SharedRing {
  // A rank, with the link that leads to it.
  struct Station {
    CondVar changed;                // Something this rank may wait for has happened.
    bool left_ring = false;         // Its transport was aborted or destroyed.
    std::vector<std::byte> buffer;  // Circular.
    size_t first = 0;               // Index of the oldest byte.
    size_t filled = 0;              // Bytes in the buffer.
  };

  SharedRing(int ranks, size_t link_bytes) : stations(ranks) {
    for (Station& station : stations) station.buffer.resize(link_bytes);
  }

  Mutex mutex;
  std::vector<Station> stations ABSL_GUARDED_BY(mutex);
};

class InProcessTransport final : public Transport {
 public:
  InProcessTransport(std::shared_ptr<SharedRing> ring, int rank, int ranks)
      : Transport(absl::StrCat("left neighbour worker ", LeftOf(rank, ranks)),
                  absl::StrCat("right neighbour worker ", RightOf(rank, ranks)), {}),
        ring_(std::move(ring)),
        rank_(rank),
        left_rank_(LeftOf(rank, ranks)),
        right_rank_(RightOf(rank, ranks)) {}

  ~InProcessTransport() override { Leave(); }

 private:
  absl::StatusOr<size_t> DoTrySend(std::span<const std::byte> bytes) override {
    MutexLock lock(&ring_->mutex);
    SharedRing::Station& to = ring_->stations[right_rank_];
    if (to.left_ring) return NeighbourClosedError(right());
    const size_t taken = std::min(bytes.size(), to.buffer.size() - to.filled);
    const size_t begin = (to.first + to.filled) % to.buffer.size();
    const size_t before_wrap = std::min(taken, to.buffer.size() - begin);
    std::memcpy(to.buffer.data() + begin, bytes.data(), before_wrap);
    std::memcpy(to.buffer.data(), bytes.data() + before_wrap, taken - before_wrap);
    to.filled += taken;
    if (taken > 0) to.changed.NotifyAll();
    return taken;
  }

  absl::StatusOr<size_t> DoTryReceive(std::span<std::byte> buffer) override {
    MutexLock lock(&ring_->mutex);
    SharedRing::Station& own = ring_->stations[rank_];
    SharedRing::Station& from = ring_->stations[left_rank_];
    if (own.filled == 0 && from.left_ring) return NeighbourClosedError(left());
    const size_t taken = std::min(buffer.size(), own.filled);
    const size_t before_wrap = std::min(taken, own.buffer.size() - own.first);
    std::memcpy(buffer.data(), own.buffer.data() + own.first, before_wrap);
    std::memcpy(buffer.data() + before_wrap, own.buffer.data(), taken - before_wrap);
    own.first = (own.first + taken) % own.buffer.size();
    own.filled -= taken;
    if (taken > 0) from.changed.NotifyAll();
    return taken;
  }

  absl::Status DoWait(SendInterest send, bool receive, absl::Duration timeout) override {
    const auto deadline = SteadyDeadline(timeout);
    MutexLock lock(&ring_->mutex);
    SharedRing::Station& own = ring_->stations[rank_];
    const SharedRing::Station& from = ring_->stations[left_rank_];
    const SharedRing::Station& to = ring_->stations[right_rank_];
    for (bool timed_out = false;;) {
      if (own.left_ring) return absl::OkStatus();  // Aborted; the caller knows why.
      if (send != SendInterest::kNone && to.left_ring) {
        return NeighbourClosedError(right());
      }
      if (send == SendInterest::kNow && to.filled < to.buffer.size()) {
        return absl::OkStatus();
      }
      if (receive && (own.filled > 0 || from.left_ring)) return absl::OkStatus();
      if (timed_out) return absl::DeadlineExceededError("nothing moved");
      timed_out = own.changed.WaitUntil(&ring_->mutex, deadline);
    }
  }

  void DoAbort() override { Leave(); }

  void Leave() {
    MutexLock lock(&ring_->mutex);
    ring_->stations[rank_].left_ring = true;
    for (const int rank : {left_rank_, rank_, right_rank_}) {
      ring_->stations[rank].changed.NotifyAll();
    }
  }

  const std::shared_ptr<SharedRing> ring_;
  const int rank_;
  const int left_rank_;
  const int right_rank_;
};

}  // namespace

std::vector<std::unique_ptr<Transport>> MakeInProcessRing(int ranks, size_t link_bytes) {
  CHECK_GE(ranks, 2);
  CHECK_GE(link_bytes, 1u);
  const auto ring = std::make_shared<SharedRing>(ranks, link_bytes);
  std::vector<std::unique_ptr<Transport>> transports;
  for (int rank = 0; rank < ranks; ++rank) {
    transports.push_back(std::make_unique<InProcessTransport>(ring, rank, ranks));
  }
  return transports;
}

}  // namespace psring
