#include "ring/tcp_transport.h"

#include <netinet/in.h>
#include <netinet/tcp.h>
#include <sched.h>
#include <sys/eventfd.h>
#include <sys/socket.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <chrono>
#include <cstring>
#include <utility>

#include "absl/strings/str_cat.h"
#include "common/mutex.h"
#include "common/status_macros.h"
#include "glog/logging.h"

namespace psring {
namespace {

// What goes over one lane before it is the next one's turn; not more than one call moves.
constexpr uint64_t kBlockBytes = 128 * 1024;
// How long the reason of a peer may take to arrive after its payload has ended.
constexpr absl::Duration kReasonPatience = absl::Seconds(1);
// Waits may end early; this is one that the system's types can hold.
constexpr absl::Duration kLongestWait = absl::Hours(24 * 365);

// Where a stream of a link stands: on which lane, and how many bytes go there.
struct Turn {
  size_t lane = 0;
  size_t limit = 0;
};
Turn TurnAt(uint64_t position, size_t lanes) {
  if (lanes == 1) return {.limit = SIZE_MAX};
  return {.lane = position / kBlockBytes % lanes,
          .limit = kBlockBytes - position % kBlockBytes};
}

// Both pieces, cut off after `limit` bytes. Most often only one has bytes.
struct Pieces {
  Pieces(std::span<const std::byte> first, std::span<const std::byte> second,
         size_t limit) {
    const size_t from_first = std::min(first.size(), limit);
    // The system's type is for both directions and knows no const.
    vectors = {{{const_cast<std::byte*>(first.data()), from_first},
                {const_cast<std::byte*>(second.data()),
                 std::min(second.size(), limit - from_first)}}};
    message.msg_iov = vectors.data() + (from_first == 0 ? 1 : 0);
    message.msg_iovlen = from_first == 0 || vectors[1].iov_len == 0 ? 1 : 2;
  }
  Pieces(const Pieces&) = delete;

  ssize_t SendTo(int socket) const {
    if (message.msg_iovlen == 2) return sendmsg(socket, &message, MSG_NOSIGNAL);
    return send(socket, message.msg_iov->iov_base, message.msg_iov->iov_len,
                MSG_NOSIGNAL);
  }
  ssize_t ReceiveFrom(int socket) {
    if (message.msg_iovlen == 2) return recvmsg(socket, &message, 0);
    return recv(socket, message.msg_iov->iov_base, message.msg_iov->iov_len, 0);
  }

  std::array<iovec, 2> vectors;
  msghdr message = {};
};

// Messages are far smaller than the buffer of an idle connection. A peer that has gone
// need not be told anything.
void SendControl(const FileDescriptor& control, const std::string& message) {
  (void)SendTcp(control, std::as_bytes(std::span(message)));
}

}  // namespace

absl::StatusOr<std::unique_ptr<Transport>> TcpTransport::Make(int rank,
                                                              std::vector<TcpLink> links,
                                                              bool spin) {
  FileDescriptor wake(eventfd(0, EFD_NONBLOCK | EFD_CLOEXEC));
  if (!wake.open()) {
    return absl::UnavailableError(
        absl::StrCat("cannot make an eventfd: ", std::strerror(errno)));
  }
  std::vector<Peer> peers;
  for (const TcpLink& link : links) peers.push_back(link.peer);
  return std::unique_ptr<Transport>(
      new TcpTransport(rank, std::move(peers), std::move(links), std::move(wake), spin));
}

TcpTransport::TcpTransport(int rank, std::vector<Peer> peers, std::vector<TcpLink> links,
                           FileDescriptor wake, bool spin)
    : Transport(rank, peers), wake_(std::move(wake)), spin_(spin) {
  for (TcpLink& link : links) {
    CHECK(!link.out.empty() && link.in.size() == link.out.size());
    const auto peer = static_cast<size_t>(link.peer.rank);
    index_.resize(std::max(index_.size(), peer + 1));
    index_[peer] = connections_.size();
    connections_.push_back({.peer = link.peer.rank,
                            .control = std::move(link.control),
                            .out = std::move(link.out),
                            .in = std::move(link.in),
                            .said = {}});
  }
  polled_.reserve(1 + 2 * connections_.size());
}

absl::StatusOr<size_t> TcpTransport::DoTrySend(int peer, std::span<const std::byte> first,
                                               std::span<const std::byte> second) {
  Connections& to = To(peer);
  const Turn turn = TurnAt(to.sent, to.out.size());
  const ssize_t sent = Pieces(first, second, turn.limit).SendTo(to.out[turn.lane].get());
  if (sent >= 0) {
    to.sent += static_cast<uint64_t>(sent);
    return static_cast<size_t>(sent);
  }
  if (errno == EAGAIN || errno == EINTR) return size_t{0};
  return Lost(to, std::strerror(errno));
}

absl::StatusOr<size_t> TcpTransport::DoTryReceive(int peer, std::span<std::byte> first,
                                                  std::span<std::byte> second) {
  Connections& from = To(peer);
  const Turn turn = TurnAt(from.received, from.in.size());
  const ssize_t received =
      Pieces(first, second, turn.limit).ReceiveFrom(from.in[turn.lane].get());
  if (received > 0) {
    from.received += static_cast<uint64_t>(received);
    return static_cast<size_t>(received);
  }
  if (received == 0) return Lost(from, "");
  if (errno == EAGAIN || errno == EINTR) return size_t{0};
  return Lost(from, std::strerror(errno));
}

absl::StatusOr<Transport::Cause> TcpTransport::DoWait(std::span<const Interest> interests,
                                                      absl::Duration timeout) {
  constexpr short kGone = POLLRDHUP | POLLHUP | POLLERR;
  polled_.assign(1, {.fd = wake_.get(), .events = POLLIN, .revents = 0});
  // Two entries for each interest. poll() ignores negative descriptors, and reports
  // hang-ups of all others.
  for (const Interest& interest : interests) {
    const Connections& peer = To(interest.peer);
    const Turn in = TurnAt(peer.received, peer.in.size());
    const Turn out = TurnAt(peer.sent, peer.out.size());
    polled_.push_back({.fd = interest.receive ? peer.in[in.lane].get() : -1,
                       .events = POLLIN,
                       .revents = 0});
    // Nothing ever comes back where we send, so a half-close means that the peer has
    // left.
    polled_.push_back(
        {.fd = interest.send == SendInterest::kNone ? -1 : peer.out[out.lane].get(),
         .events = static_cast<short>(
             POLLRDHUP | (interest.send == SendInterest::kNow ? POLLOUT : 0)),
         .revents = 0});
  }
  ASSIGN_OR_RETURN(const int events, Poll(timeout));
  if (events == 0) return absl::DeadlineExceededError("nothing moved");
  if (polled_[0].revents != 0) TakeWake();
  Cause cause;
  for (size_t i = 0; i < interests.size(); ++i) {
    const short in = polled_[1 + 2 * i].revents;
    const short out = polled_[2 + 2 * i].revents;
    if (out & kGone) return Lost(To(interests[i].peer), "");
    if (cause.peer < 0 && (in | out) != 0) {
      cause = {.peer = interests[i].peer, .room = in == 0};
    }
  }
  return cause;
}

absl::StatusOr<int> TcpTransport::Poll(absl::Duration timeout) {
  int events = 0;
  // Waits may end early, by a signal too.
  const auto poll_for = [&](absl::Duration limit) {
    const timespec time = absl::ToTimespec(limit);  // poll() has only milliseconds.
    events = ppoll(polled_.data(), polled_.size(), &time, /*sigmask=*/nullptr);
    if (events < 0 && errno == EINTR) events = 1;
    return events != 0;
  };
  const auto moved = [&] { return poll_for(absl::ZeroDuration()); };
  if (spin_) {
    const auto deadline = SteadyDeadline(timeout);
    // Where ranks outnumber processors, the one that is waited for needs this one.
    while (!moved() && std::chrono::steady_clock::now() < deadline) sched_yield();
  } else if (!yields_.Until(moved)) {
    poll_for(std::clamp(timeout, absl::ZeroDuration(), kLongestWait));
  }
  if (events < 0) {
    return absl::InternalError(absl::StrCat("poll: ", std::strerror(errno)));
  }
  return events;
}

void TcpTransport::DoWake() { PCHECK(eventfd_write(wake_.get(), 1) == 0); }

bool TcpTransport::TakeWake() {
  eventfd_t times = 0;
  return eventfd_read(wake_.get(), &times) == 0;
}

void TcpTransport::DoSayWaiting(bool waiting) {
  const std::string message = EncodeWaiting(waiting);
  for (const Connections& peer : connections_) SendControl(peer.control, message);
}

bool TcpTransport::DoSaysWaiting(int peer) {
  ReadControl(To(peer));
  return To(peer).said.waiting();
}

bool TcpTransport::ReadControl(Connections& connections) {
  std::array<std::byte, 4096> buffer;
  while (!connections.said.ended()) {
    const absl::StatusOr<size_t> received = ReceiveTcp(connections.control, buffer);
    if (!received.ok()) return false;
    if (*received == 0) return true;
    connections.said.Take(std::span(buffer).first(*received));
  }
  return false;
}

absl::Status TcpTransport::Lost(Connections& connections, absl::string_view cause) {
  const auto deadline = SteadyDeadline(kReasonPatience);
  bool woken = false;
  while (!aborted() && ReadControl(connections)) {
    const auto left = deadline - std::chrono::steady_clock::now();
    pollfd polled[] = {{.fd = wake_.get(), .events = POLLIN, .revents = 0},
                       {.fd = connections.control.get(), .events = POLLIN, .revents = 0}};
    const int events = poll(polled, 2, PollMilliseconds(absl::FromChrono(left)));
    if (left.count() <= 0 || (events < 0 && errno != EINTR)) break;
    woken = TakeWake() || woken;
  }
  if (woken) DoWake();  // It was meant for a Wait.
  return LostError(connections.peer, connections.said.reason(),
                   cause.empty() ? "closed the connection"
                                 : absl::StrCat("closed the connection (", cause, ")"));
}

void TcpTransport::DoAbort(const Failure& reason) {
  DoWake();
  const std::string message = EncodeReason(reason);
  for (const Connections& peer : connections_) {
    SendControl(peer.control, message);
    // Fails only where the peer has broken the connection already.
    shutdown(peer.control.get(), SHUT_WR);
    for (const FileDescriptor& lane : peer.out) shutdown(lane.get(), SHUT_RDWR);
    for (const FileDescriptor& lane : peer.in) shutdown(lane.get(), SHUT_RDWR);
  }
}

int64_t TcpTransport::DoRetransmissions(int peer) const {
  int64_t sum = 0;
  for (const FileDescriptor& lane : To(peer).out) {
    tcp_info info = {};
    socklen_t length = sizeof(info);
    if (getsockopt(lane.get(), IPPROTO_TCP, TCP_INFO, &info, &length) == 0) {
      sum += info.tcpi_total_retrans;
    }
  }
  return sum;
}

}  // namespace psring
