#include "ring/tcp_transport.h"

#include <poll.h>
#include <sys/eventfd.h>
#include <sys/socket.h>
#include <unistd.h>

#include <cerrno>
#include <chrono>
#include <cstring>
#include <utility>

#include "absl/strings/str_cat.h"
#include "common/errors.h"
#include "glog/logging.h"

namespace psring {
namespace {

absl::Status LostError(const std::string& neighbour, const absl::Status& cause) {
  return PeerLostError(absl::StrCat(neighbour, ": ", cause.message()));
}

}  // namespace

absl::StatusOr<std::unique_ptr<Transport>> TcpTransport::Make(FileDescriptor to_right,
                                                              FileDescriptor from_left,
                                                              std::string right,
                                                              std::string left,
                                                              WireBytes opening) {
  FileDescriptor abort(eventfd(0, EFD_NONBLOCK | EFD_CLOEXEC));
  if (!abort.open()) {
    return absl::UnavailableError(
        absl::StrCat("cannot make an eventfd: ", std::strerror(errno)));
  }
  return std::unique_ptr<Transport>(
      new TcpTransport(std::move(to_right), std::move(from_left), std::move(abort),
                       std::move(right), std::move(left), opening));
}

TcpTransport::TcpTransport(FileDescriptor to_right, FileDescriptor from_left,
                           FileDescriptor abort, std::string right, std::string left,
                           WireBytes opening)
    : Transport(std::move(left), std::move(right), opening),
      to_right_(std::move(to_right)),
      from_left_(std::move(from_left)),
      abort_(std::move(abort)) {}

absl::StatusOr<size_t> TcpTransport::DoTrySend(std::span<const std::byte> bytes) {
  absl::StatusOr<size_t> sent = SendTcp(to_right_, bytes);
  if (!sent.ok()) return LostError(right(), sent.status());
  return sent;
}

absl::StatusOr<size_t> TcpTransport::DoTryReceive(std::span<std::byte> buffer) {
  absl::StatusOr<size_t> received = ReceiveTcp(from_left_, buffer);
  if (!received.ok()) return LostError(left(), received.status());
  return received;
}

absl::Status TcpTransport::DoWait(SendInterest send, bool receive,
                                  absl::Duration timeout) {
  // poll() ignores negative descriptors, and reports hang-ups of all others.
  pollfd polled[] = {
      {.fd = abort_.get(), .events = POLLIN, .revents = 0},
      {.fd = receive ? from_left_.get() : -1, .events = POLLIN, .revents = 0},
      {.fd = send == SendInterest::kNone ? -1 : to_right_.get(),
       // Nothing ever comes back from the right, so a half-close means that it has left.
       .events =
           static_cast<short>(POLLRDHUP | (send == SendInterest::kNow ? POLLOUT : 0)),
       .revents = 0}};
  const int events = poll(polled, std::size(polled), PollMilliseconds(timeout));
  if (events < 0) {
    if (errno == EINTR) return absl::OkStatus();  // Waits may end early.
    return absl::InternalError(absl::StrCat("poll: ", std::strerror(errno)));
  }
  if (events == 0) return absl::DeadlineExceededError("nothing moved");
  if (polled[2].revents & (POLLRDHUP | POLLHUP | POLLERR)) {
    return NeighbourClosedError(right());
  }
  return absl::OkStatus();
}

void TcpTransport::DoAbort() {
  const uint64_t one = 1;
  PCHECK(write(abort_.get(), &one, sizeof(one)) == sizeof(one));
  // Fails only where the neighbour has broken the connection already.
  shutdown(to_right_.get(), SHUT_RDWR);
  shutdown(from_left_.get(), SHUT_RDWR);
}

}  // namespace psring
