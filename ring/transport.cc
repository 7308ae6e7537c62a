#include "ring/transport.h"

#include <utility>

#include "absl/strings/str_cat.h"
#include "common/errors.h"
#include "common/status_macros.h"
#include "glog/logging.h"

namespace psring {

Transport::Transport(std::string left, std::string right, WireBytes opening)
    : left_(std::move(left)),
      right_(std::move(right)),
      wire_out_(opening.out),
      wire_in_(opening.in) {}

absl::StatusOr<size_t> Transport::TrySend(std::span<const std::byte> bytes) {
  DCHECK(!bytes.empty());
  RETURN_IF_ERROR(AbortReason());
  absl::StatusOr<size_t> taken = DoTrySend(bytes);
  if (!taken.ok()) {
    RETURN_IF_ERROR(AbortReason());  // Then the error is only its echo.
    return taken;
  }
  wire_out_.fetch_add(static_cast<int64_t>(*taken), std::memory_order_relaxed);
  return taken;
}

absl::StatusOr<size_t> Transport::TryReceive(std::span<std::byte> buffer) {
  DCHECK(!buffer.empty());
  RETURN_IF_ERROR(AbortReason());
  absl::StatusOr<size_t> filled = DoTryReceive(buffer);
  if (!filled.ok()) {
    RETURN_IF_ERROR(AbortReason());
    return filled;
  }
  wire_in_.fetch_add(static_cast<int64_t>(*filled), std::memory_order_relaxed);
  return filled;
}

absl::Status Transport::Wait(SendInterest send, bool receive, absl::Duration timeout) {
  RETURN_IF_ERROR(AbortReason());
  absl::Status status = DoWait(send, receive, timeout);
  RETURN_IF_ERROR(AbortReason());
  return status;
}

void Transport::Abort(absl::Status reason) {
  CHECK(!reason.ok());
  {
    MutexLock lock(&mutex_);
    if (!abort_reason_.ok()) return;
    abort_reason_ = std::move(reason);
  }
  aborted_.store(true, std::memory_order_release);
  DoAbort();
}

WireBytes Transport::wire() const {
  return {.out = wire_out_.load(std::memory_order_relaxed),
          .in = wire_in_.load(std::memory_order_relaxed)};
}

absl::Status Transport::AbortReason() const {
  if (!aborted_.load(std::memory_order_acquire)) return absl::OkStatus();
  MutexLock lock(&mutex_);
  return abort_reason_;
}

absl::Status NeighbourClosedError(const std::string& neighbour) {
  return PeerLostError(absl::StrCat(neighbour, " closed the connection"));
}

}  // namespace psring
