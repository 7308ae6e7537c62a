#include "worker/tcp_connector.h"

#include <poll.h>
#include <sys/eventfd.h>

#include <algorithm>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "absl/time/time.h"
#include "common/status_macros.h"
#include "glog/logging.h"

namespace psring {
namespace {

// Between rounds over all addresses, so that a server that starts is found soon.
constexpr std::chrono::milliseconds kPause(100);
// Of one attempt, where there are others.
constexpr std::chrono::seconds kAttempt(5);

}  // namespace

TcpConnector::TcpConnector(std::string address)
    : address_(std::move(address)), stop_(eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK)) {
  PCHECK(stop_.open());
}

absl::StatusOr<FileDescriptor> TcpConnector::Connect(Time until) {
  absl::Status last = absl::UnavailableError("no attempt was made");
  while (std::chrono::steady_clock::now() < until) {
    const absl::StatusOr<std::vector<SocketAddress>> found = ResolveTcp(address_);
    if (absl::IsInvalidArgument(found.status())) return found.status();
    last = found.status();
    for (size_t i = 0; found.ok() && i < found->size(); ++i) {
      absl::StatusOr<FileDescriptor> socket = Attempt((*found)[i], until);
      if (socket.ok() || absl::IsCancelled(socket.status())) return socket;
      last = socket.status();
    }
    RETURN_IF_ERROR(
        AwaitWritable(-1, std::min(until, std::chrono::steady_clock::now() + kPause))
            .status());
  }
  return absl::DeadlineExceededError(
      absl::StrCat("cannot connect to ", address_, ": ", last.message()));
}

absl::StatusOr<FileDescriptor> TcpConnector::Attempt(const SocketAddress& address,
                                                     Time until) {
  ASSIGN_OR_RETURN(FileDescriptor socket, StartConnectTcp(address));
  ASSIGN_OR_RETURN(
      const bool answered,
      AwaitWritable(socket.get(),
                    std::min(until, std::chrono::steady_clock::now() + kAttempt)));
  if (!answered) return absl::UnavailableError("no answer");
  RETURN_IF_ERROR(SocketError(socket));
  return socket;
}

void TcpConnector::Stop() { PCHECK(eventfd_write(stop_.get(), 1) == 0); }

absl::StatusOr<bool> TcpConnector::AwaitWritable(int socket, Time until) {
  pollfd waits[] = {{.fd = stop_.get(), .events = POLLIN, .revents = 0},
                    {.fd = socket, .events = POLLOUT, .revents = 0}};
  while (true) {
    const auto left = until - std::chrono::steady_clock::now();
    poll(waits, 2, PollMilliseconds(absl::FromChrono(left)));
    if (waits[0].revents != 0) return absl::CancelledError("stopped");
    if (waits[1].revents != 0) return true;
    if (std::chrono::steady_clock::now() >= until) return false;
  }
}

}  // namespace psring
