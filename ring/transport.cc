#include "ring/transport.h"

#include <algorithm>
#include <chrono>
#include <utility>

#include "absl/strings/cord.h"
#include "absl/strings/str_cat.h"
#include "common/errors.h"
#include "common/status_macros.h"
#include "glog/logging.h"

namespace psring {
namespace {

// The mark of a reason that has crossed a link.
constexpr char kRelayedUrl[] = "psring.relayed";

// A reason as the peers are to have it: who is merely told to stop is lost to them.
Failure ReasonForPeers(const absl::Status& reason, int rank) {
  if (!absl::IsCancelled(reason)) return ToFailure(reason);
  return ToFailure(
      PeerLostError(absl::StrCat("worker ", rank, " gave up: ", reason.message())));
}

}  // namespace

Transport::Transport(int rank, std::span<const Peer> peers, bool counts_framing)
    : rank_(rank), counts_framing_(counts_framing) {
  for (const Peer& peer : peers) {
    CHECK(peer.rank >= 0 && peer.rank != rank);
    const auto index = static_cast<size_t>(peer.rank);
    if (links_.size() <= index) links_.resize(index + 1);
    CHECK(links_[index] == nullptr) << "two links to worker " << peer.rank;
    links_[index] = std::make_unique<Link>();
    links_[index]->name = peer.name;
    links_[index]->out = peer.opening.out;
    links_[index]->in = peer.opening.in;
    peers_.push_back(peer.rank);
  }
}

absl::StatusOr<size_t> Transport::TrySend(int peer, std::span<const std::byte> first,
                                          std::span<const std::byte> second) {
  DCHECK(!first.empty() || !second.empty());
  RETURN_IF_ERROR(AbortReason());
  absl::StatusOr<size_t> taken = DoTrySend(peer, first, second);
  if (!taken.ok()) {
    RETURN_IF_ERROR(AbortReason());  // Then the error is only its echo.
    return taken;
  }
  LinkTo(peer).out.fetch_add(static_cast<int64_t>(*taken), std::memory_order_relaxed);
  return taken;
}

absl::StatusOr<size_t> Transport::TryReceive(int peer, std::span<std::byte> first,
                                             std::span<std::byte> second) {
  DCHECK(!first.empty() || !second.empty());
  RETURN_IF_ERROR(AbortReason());
  absl::StatusOr<size_t> filled = DoTryReceive(peer, first, second);
  if (!filled.ok()) {
    RETURN_IF_ERROR(AbortReason());
    return filled;
  }
  LinkTo(peer).in.fetch_add(static_cast<int64_t>(*filled), std::memory_order_relaxed);
  return filled;
}

absl::Status Transport::Wait(std::span<const Interest> interests,
                             absl::Duration timeout) {
  DCHECK(!interests.empty());
  RETURN_IF_ERROR(AbortReason());
  const auto start = std::chrono::steady_clock::now();
  const absl::StatusOr<Cause> cause = DoWait(interests, timeout);
  const std::chrono::nanoseconds waited = std::chrono::steady_clock::now() - start;
  if (cause.ok() && cause->peer >= 0) {
    Link& link = LinkTo(cause->peer);
    (cause->room ? link.awaiting_room_ns : link.awaiting_bytes_ns)
        .fetch_add(waited.count(), std::memory_order_relaxed);
  }
  RETURN_IF_ERROR(AbortReason());
  return cause.status();
}

void Transport::Wake() { DoWake(); }

void Transport::SayWaiting(bool waiting) { DoSayWaiting(waiting); }

bool Transport::SaysWaiting(int peer) { return DoSaysWaiting(peer); }

void Transport::Abort(absl::Status reason) {
  CHECK(!reason.ok());
  const Failure for_peers = ReasonForPeers(reason, rank_);
  {
    MutexLock lock(&mutex_);
    if (!abort_reason_.ok()) return;
    abort_reason_ = std::move(reason);
  }
  aborted_.store(true, std::memory_order_release);
  DoAbort(for_peers);
}

LinkTotals Transport::totals(int peer) const {
  const Link& link = LinkTo(peer);
  const auto nanoseconds = [](const std::atomic<int64_t>& count) {
    return absl::Nanoseconds(count.load(std::memory_order_relaxed));
  };
  return {.wire = {.out = link.out.load(std::memory_order_relaxed),
                   .in = link.in.load(std::memory_order_relaxed)},
          .awaiting_bytes = nanoseconds(link.awaiting_bytes_ns),
          .awaiting_room = nanoseconds(link.awaiting_room_ns),
          .retransmissions = DoRetransmissions(peer)};
}

LinkTotals Transport::totals() const {
  LinkTotals sum;
  for (const int peer : peers_) {
    const LinkTotals link = totals(peer);
    sum.wire.out += link.wire.out;
    sum.wire.in += link.wire.in;
    sum.awaiting_bytes += link.awaiting_bytes;
    sum.awaiting_room += link.awaiting_room;
    sum.retransmissions += link.retransmissions;
  }
  return sum;
}

absl::Status Transport::AbortReason() const {
  if (!aborted()) return absl::OkStatus();
  MutexLock lock(&mutex_);
  return abort_reason_;
}

Transport::Link& Transport::LinkTo(int peer) const {
  const auto index = static_cast<size_t>(peer);
  CHECK(index < links_.size() && links_[index] != nullptr)
      << "worker " << rank_ << " has no link to worker " << peer;
  return *links_[index];
}

absl::Status Transport::LostError(int peer, const std::optional<Failure>& reason,
                                  absl::string_view cause) const {
  if (!reason.has_value()) return PeerLostError(absl::StrCat(name(peer), " ", cause));
  absl::Status status = FromFailure(*reason);
  // What says that it is OK gives no reason.
  if (status.ok()) return PeerLostError(absl::StrCat(name(peer), " gave no reason"));
  status.SetPayload(kRelayedUrl, absl::Cord());
  return status;
}

bool IsRelayed(const absl::Status& status) {
  return status.GetPayload(kRelayedUrl).has_value();
}

}  // namespace psring
