#include "ring/grpc_transport.h"

#include <sched.h>

#include <algorithm>
#include <array>
#include <chrono>
#include <cstring>
#include <optional>
#include <string>
#include <utility>

#include "absl/strings/str_cat.h"
#include "common/mutex.h"
#include "common/status_macros.h"
#include "glog/logging.h"
#include "ring/control_message.h"
#include "ring/grpc_lane.h"
#include "ring/grpc_rendezvous.h"

namespace psring {
namespace {

constexpr size_t kMaxMessageBytes = 128 * 1024;
// How long the reason of a peer may take to arrive after its payload has ended.
constexpr absl::Duration kReasonPatience = absl::Seconds(1);

grpc::ByteBuffer MessageOf(std::span<const std::byte> first,
                           std::span<const std::byte> second) {
  grpc::Slice slice(first.size() + second.size());
  // Just made, and nobody else's yet.
  auto* const to = const_cast<uint8_t*>(slice.begin());
  if (!first.empty()) std::memcpy(to, first.data(), first.size());
  if (!second.empty()) std::memcpy(to + first.size(), second.data(), second.size());
  return grpc::ByteBuffer(&slice, 1);
}

class GrpcTransport final : public Transport {
 public:
  GrpcTransport(int rank, std::unique_ptr<GrpcLanes> lanes, bool spin)
      : Transport(rank, PeersOf(*lanes), /*counts_framing=*/false),
        lanes_(std::move(lanes)),
        monitor_(lanes_->monitor()),
        spin_(spin) {
    for (PeerLanes& link : lanes_->links()) {
      by_rank_.resize(std::max<size_t>(by_rank_.size(), link.peer + 1));
      by_rank_[link.peer] = &link;
    }
  }

 private:
  static std::vector<Peer> PeersOf(GrpcLanes& lanes) {
    std::vector<Peer> peers;
    for (const PeerLanes& link : lanes.links()) peers.push_back({link.peer, link.name});
    return peers;
  }

  absl::StatusOr<size_t> DoTrySend(int peer, std::span<const std::byte> first,
                                   std::span<const std::byte> second) override {
    PeerLanes& link = *by_rank_[peer];
    GrpcLane& lane = *link.lanes[link.sent_messages % link.lanes.size()];
    {
      MutexLock lock(&monitor_.mutex);
      if (!lane.ended_locked() && !lane.can_send_locked()) return size_t{0};
    }
    if (Ended(lane)) return Lost(link);
    first = first.first(std::min(first.size(), kMaxMessageBytes));
    second = second.first(std::min(second.size(), kMaxMessageBytes - first.size()));
    lane.Send(MessageOf(first, second));
    ++link.sent_messages;
    return first.size() + second.size();
  }

  absl::StatusOr<size_t> DoTryReceive(int peer, std::span<std::byte> first,
                                      std::span<std::byte> second) override {
    PeerLanes& link = *by_rank_[peer];
    GrpcLane& lane = *link.lanes[link.received_messages % link.lanes.size()];
    // Asked first: what came before the end is still received.
    const bool ended = Ended(lane);
    GrpcLane::Received received = lane.Receive(first);
    size_t bytes = received.bytes;
    if (bytes == first.size() && !received.message_done && !second.empty()) {
      received = lane.Receive(second);
      bytes += received.bytes;
    }
    if (received.message_done) ++link.received_messages;
    if (bytes == 0 && ended) return Lost(link);
    return bytes;
  }

  absl::StatusOr<Cause> DoWait(std::span<const Interest> interests,
                               absl::Duration timeout) override {
    const auto deadline = SteadyDeadline(timeout);
    for (bool timed_out = false;;) {
      {
        MutexLock lock(&monitor_.mutex);
        for (;;) {
          if (aborted_ || std::exchange(woken_, false)) return Cause{};
          for (const Interest& interest : interests) {
            const std::optional<Cause> cause = CauseLocked(interest);
            if (cause.has_value()) return *cause;
            if (IsLostLocked(interest)) {
              lost_ = by_rank_[interest.peer];
              break;
            }
          }
          if (lost_ != nullptr || timed_out || spin_) break;
          timed_out = monitor_.changed.WaitUntil(&monitor_.mutex, deadline);
        }
      }
      if (lost_ != nullptr) return Lost(*std::exchange(lost_, nullptr));
      if (timed_out) return absl::DeadlineExceededError("nothing moved");
      timed_out = std::chrono::steady_clock::now() >= deadline;
      sched_yield();
    }
  }

  std::optional<Cause> CauseLocked(const Interest& interest) const
      ABSL_EXCLUSIVE_LOCKS_REQUIRED(monitor_.mutex) {
    const PeerLanes& link = *by_rank_[interest.peer];
    const GrpcLane& in = *link.lanes[link.received_messages % link.lanes.size()];
    const GrpcLane& out = *link.lanes[link.sent_messages % link.lanes.size()];
    if (IsLostLocked(interest)) return std::nullopt;
    if (interest.receive && (in.can_receive_locked() || in.ended_locked())) {
      return Cause{.peer = interest.peer};
    }
    if (interest.send == SendInterest::kNow && out.can_send_locked()) {
      return Cause{.peer = interest.peer, .room = true};
    }
    return std::nullopt;
  }

  bool IsLostLocked(const Interest& interest) const
      ABSL_EXCLUSIVE_LOCKS_REQUIRED(monitor_.mutex) {
    const PeerLanes& link = *by_rank_[interest.peer];
    return interest.send != SendInterest::kNone &&
           link.lanes[link.sent_messages % link.lanes.size()]->ended_locked();
  }

  bool Ended(const GrpcLane& lane) {
    MutexLock lock(&monitor_.mutex);
    return lane.ended_locked();
  }

  void DoWake() override {
    MutexLock lock(&monitor_.mutex);
    woken_ = true;
    monitor_.changed.NotifyAll();
  }

  void DoSayWaiting(bool waiting) override { Tell(EncodeWaiting(waiting)); }

  bool DoSaysWaiting(int peer) override {
    ReadControl(*by_rank_[peer]);
    return by_rank_[peer]->said.waiting();
  }

  void Tell(const std::string& message) {
    const auto bytes = std::as_bytes(std::span(message));
    for (PeerLanes& link : lanes_->links()) link.control->Send(MessageOf(bytes, {}));
  }

  // False once nothing more will come.
  bool ReadControl(PeerLanes& link) {
    std::array<std::byte, 4096> buffer;
    const bool ended = Ended(*link.control);
    for (;;) {
      const GrpcLane::Received received = link.control->Receive(buffer);
      if (received.bytes == 0) break;
      link.said.Take(std::span(buffer).first(received.bytes));
    }
    return !ended && !link.said.ended();
  }

  absl::Status Lost(PeerLanes& link) {
    const auto deadline = SteadyDeadline(kReasonPatience);
    for (bool timed_out = false; ReadControl(link) && !timed_out;) {
      MutexLock lock(&monitor_.mutex);
      while (!aborted_ && !timed_out && !link.control->can_receive_locked() &&
             !link.control->ended_locked()) {
        timed_out = monitor_.changed.WaitUntil(&monitor_.mutex, deadline);
      }
      if (aborted_) break;
    }
    return LostError(link.peer, link.said.reason(), "closed the connection");
  }

  void DoAbort(const Failure& reason) override {
    Tell(EncodeReason(reason));
    for (PeerLanes& link : lanes_->links()) {
      link.control->Leave();
      for (const GrpcLanePtr& lane : link.lanes) lane->Leave();
    }
    MutexLock lock(&monitor_.mutex);
    aborted_ = true;
    monitor_.changed.NotifyAll();
  }

  // gRPC keeps its sockets to itself.
  int64_t DoRetransmissions(int) const override { return 0; }

  const std::unique_ptr<GrpcLanes> lanes_;
  GrpcLane::Monitor& monitor_;
  const bool spin_;
  std::vector<PeerLanes*> by_rank_;
  PeerLanes* lost_ = nullptr;  // Whom a wait has found to be lost.
  bool aborted_ ABSL_GUARDED_BY(monitor_.mutex) = false;
  bool woken_ ABSL_GUARDED_BY(monitor_.mutex) = false;  // By a Wake not yet taken.
};

}  // namespace

absl::StatusOr<std::unique_ptr<GrpcListener>> GrpcListener::Listen(absl::string_view host,
                                                                   int port) {
  auto listener = std::make_unique<GrpcServerListener>(host, port);
  if (!listener->listens()) {
    return absl::UnavailableError(absl::StrCat("cannot listen at ", host, ":", port));
  }
  return listener;
}

absl::StatusOr<std::unique_ptr<Transport>> ConnectPeersOverGrpc(
    std::unique_ptr<GrpcListener> listener, const RingMember& self,
    const std::vector<PeerAddress>& peers, bool spin, absl::Duration timeout) {
  CHECK_GE(self.lanes, 1);
  auto lanes = std::make_unique<GrpcLanes>(
      std::unique_ptr<GrpcServerListener>(
          static_cast<GrpcServerListener*>(listener.release())),
      self, peers);
  RETURN_IF_ERROR(lanes->Connect(timeout));
  return std::make_unique<GrpcTransport>(self.rank, std::move(lanes), spin);
}

}  // namespace psring
