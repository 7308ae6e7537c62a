#include "ring/tcp_rendezvous.h"

#include <poll.h>

#include <algorithm>
#include <cerrno>
#include <chrono>
#include <cstring>
#include <string>
#include <vector>

#include "absl/strings/str_cat.h"
#include "common/errors.h"
#include "common/mutex.h"
#include "common/status_macros.h"
#include "glog/logging.h"
#include "ring/ring_schedule.h"
#include "ring/tcp_transport.h"

namespace psring {
namespace {

using Clock = std::chrono::steady_clock;

// Between attempts to reach a right neighbour that does not answer.
constexpr absl::Duration kRetryPause = absl::Milliseconds(100);

// A connection with a Handshake that is still coming in.
struct Conversation {
  FileDescriptor socket;
  std::string address;
  Handshake handshake = {};
  size_t received = 0;

  bool complete() const { return received == sizeof(handshake); }
};

// Reads what has come, and never a byte beyond the Handshake. kUnavailable: closed early.
absl::Status ReadHandshake(Conversation& with) {
  ASSIGN_OR_RETURN(
      const size_t count,
      ReceiveTcp(
          with.socket,
          std::as_writable_bytes(std::span(&with.handshake, 1)).subspan(with.received)));
  with.received += count;
  return absl::OkStatus();
}

// A Handshake always fits into the buffer of a fresh connection.
absl::Status WriteHandshake(const FileDescriptor& socket, const Handshake& handshake) {
  ASSIGN_OR_RETURN(const size_t sent,
                   SendTcp(socket, std::as_bytes(std::span(&handshake, 1))));
  if (sent != sizeof(handshake)) return absl::UnavailableError("took no handshake");
  return absl::OkStatus();
}

// One rank's side of the rendezvous, as one loop over non-blocking sockets. Two
// independent halves share it, so that no order of connecting can deadlock:
//
//   to the right: connect, send our Handshake, await the answer; after a failure again,
//   with the
//     next address, until the deadline. A refusal is final.
//   from the left: accept everyone, await each one's Handshake, answer it. Strangers are
//     refused, and one that never says anything holds up nobody.
class Rendezvous {
 public:
  Rendezvous(const RingListener& listener, const RingMember& self,
             absl::string_view right_address, std::vector<SocketAddress> addresses,
             absl::Duration timeout)
      : listener_(listener),
        self_(self),
        deadline_(SteadyDeadline(timeout)),
        left_rank_(LeftOf(self.rank, self.ranks)),
        right_rank_(RightOf(self.rank, self.ranks)),
        right_name_(absl::StrCat("right neighbour worker ", right_rank_, " (",
                                 right_address, ")")),
        addresses_(std::move(addresses)),
        retry_at_(Clock::now()) {}

  absl::StatusOr<std::unique_ptr<Transport>> Run() {
    while (!right_done_ || !left_.socket.open()) {
      const Clock::time_point now = Clock::now();
      if (now >= deadline_) return TimeoutError();
      if (!right_.socket.open() && now >= retry_at_) StartConnect();
      RETURN_IF_ERROR(PollOnce());
    }
    // One handshake each way on both connections.
    const int64_t handshake_bytes = sizeof(Handshake);
    return TcpTransport::Make(
        std::move(right_.socket), std::move(left_.socket), right_name_,
        absl::StrCat("left neighbour worker ", left_rank_, " (", left_.address, ")"),
        {.out = 2 * handshake_bytes, .in = 2 * handshake_bytes});
  }

 private:
  absl::Status PollOnce() {
    std::vector<pollfd> polled;
    polled.push_back({.fd = left_.socket.open() ? -1 : listener_.socket().get(),
                      .events = POLLIN,
                      .revents = 0});
    polled.push_back({.fd = right_done_ ? -1 : right_.socket.get(),
                      .events = static_cast<short>(right_connected_ ? POLLIN : POLLOUT),
                      .revents = 0});
    for (const Conversation& caller : callers_) {
      polled.push_back({.fd = caller.socket.get(), .events = POLLIN, .revents = 0});
    }
    const bool retrying = !right_.socket.open();
    const Clock::time_point until = retrying ? std::min(retry_at_, deadline_) : deadline_;
    const int events = poll(polled.data(), polled.size(),
                            PollMilliseconds(absl::FromChrono(until - Clock::now())));
    if (events < 0 && errno != EINTR) {
      return absl::InternalError(absl::StrCat("poll: ", std::strerror(errno)));
    }
    if (events <= 0) return absl::OkStatus();
    if (polled[1].revents != 0) RETURN_IF_ERROR(ServeRight());
    for (size_t i = 0; i < callers_.size(); ++i) {
      if (polled[i + 2].revents != 0) RETURN_IF_ERROR(ServeCaller(callers_[i]));
    }
    std::erase_if(callers_, [](const auto& caller) { return !caller.socket.open(); });
    if (polled[0].revents != 0) RETURN_IF_ERROR(AcceptCallers());
    return absl::OkStatus();
  }

  // --- To the right.

  void StartConnect() {
    const SocketAddress& address = addresses_[attempts_++ % addresses_.size()];
    absl::StatusOr<FileDescriptor> socket = StartConnectTcp(address);
    if (!socket.ok()) return RetryRight(socket.status());
    right_ = {.socket = *std::move(socket), .address = address.ToString()};
    right_connected_ = false;
  }

  void RetryRight(const absl::Status& cause) {
    right_ = {};
    right_trouble_ = std::string(cause.message());
    retry_at_ = Clock::now() + absl::ToChronoNanoseconds(kRetryPause);
  }

  absl::Status ServeRight() {
    absl::Status status;
    if (right_connected_) {
      status = ReadHandshake(right_);
    } else {
      status = SocketError(right_.socket);
      if (status.ok()) {
        status = WriteHandshake(
            right_.socket, MakeHandshake(self_, right_rank_, HandshakeVerdict::kAsking));
      }
      right_connected_ = true;
    }
    if (!status.ok()) {
      RetryRight(status);
      return absl::OkStatus();
    }
    if (!right_.complete()) return absl::OkStatus();

    const absl::Status judgement = JudgeHandshake(right_.handshake, self_, right_rank_);
    if (!judgement.ok()) {
      return absl::FailedPreconditionError(
          absl::StrCat(right_name_, ": ", judgement.message()));
    }
    if (right_.handshake.verdict != HandshakeVerdict::kWelcome) {
      return absl::FailedPreconditionError(
          absl::StrCat(right_name_, " refused this rank; its log says why"));
    }
    right_done_ = true;
    return absl::OkStatus();
  }

  // --- From the left.

  absl::Status AcceptCallers() {
    for (;;) {
      ASSIGN_OR_RETURN(AcceptedTcp accepted, AcceptTcp(listener_.socket()));
      if (!accepted.socket.open()) return absl::OkStatus();
      callers_.push_back(
          {.socket = std::move(accepted.socket), .address = std::move(accepted.address)});
    }
  }

  absl::Status ServeCaller(Conversation& caller) {
    // Others that called in the same moment as the neighbour are no longer of interest.
    if (left_.socket.open()) return absl::OkStatus();
    if (const absl::Status status = ReadHandshake(caller); !status.ok()) {
      return Refuse(caller, status);
    }
    const bool hopeless =
        caller.received >= sizeof(caller.handshake.magic) && !HasMagic(caller.handshake);
    if (!caller.complete() && !hopeless) return absl::OkStatus();
    const absl::Status judgement = JudgeHandshake(caller.handshake, self_, left_rank_);
    if (!judgement.ok()) return Refuse(caller, judgement);

    const absl::Status answered = WriteHandshake(
        caller.socket,
        MakeHandshake(self_, caller.handshake.sender, HandshakeVerdict::kWelcome));
    if (!answered.ok()) return Refuse(caller, answered);
    left_ = std::move(caller);
    return absl::OkStatus();
  }

  // Turns a caller away; an error only if the left neighbour itself does not fit.
  absl::Status Refuse(Conversation& caller, const absl::Status& reason) {
    if (caller.complete() && HasMagic(caller.handshake)) {
      // Best effort: the caller may have gone.
      (void)WriteHandshake(caller.socket, MakeHandshake(self_, caller.handshake.sender,
                                                        HandshakeVerdict::kRefused));
    }
    const std::string text =
        absl::StrCat("connection from ", caller.address, " refused: ", reason.message());
    caller.socket = FileDescriptor();
    if (absl::IsFailedPrecondition(reason)) return absl::FailedPreconditionError(text);
    LOG(WARNING) << "worker " << self_.rank << " of job '" << self_.job << "' at port "
                 << listener_.port() << ": " << text;
    left_trouble_ = text;
    return absl::OkStatus();
  }

  absl::Status TimeoutError() const {
    std::string text = absl::StrCat("job '", self_.job, "', worker ", self_.rank, " of ",
                                    self_.ranks, ": ");
    if (!right_done_) {
      absl::StrAppend(&text, right_name_,
                      right_connected_ && right_.socket.open() ? " did not answer"
                                                               : " could not be reached",
                      right_trouble_.empty() ? "" : " (" + right_trouble_ + ")");
    }
    if (!left_.socket.open()) {
      absl::StrAppend(&text, right_done_ ? "" : "; ", "left neighbour worker ",
                      left_rank_, " never connected to port ", listener_.port(),
                      left_trouble_.empty() ? "" : " (" + left_trouble_ + ")");
    }
    return RendezvousTimeoutError(text);
  }

  const RingListener& listener_;
  const RingMember& self_;
  const Clock::time_point deadline_;
  const int left_rank_;
  const int right_rank_;
  const std::string right_name_;
  const std::vector<SocketAddress> addresses_;

  size_t attempts_ = 0;
  Clock::time_point retry_at_;
  Conversation right_;  // Not open: waits for retry_at_.
  bool right_connected_ = false;
  bool right_done_ = false;
  std::string right_trouble_;  // What ended the last attempt.

  std::vector<Conversation> callers_;
  Conversation left_;         // Open once the left neighbour has been let in.
  std::string left_trouble_;  // Who was turned away last.
};

}  // namespace

absl::StatusOr<std::unique_ptr<RingListener>> RingListener::Listen(absl::string_view host,
                                                                   int port) {
  ASSIGN_OR_RETURN(FileDescriptor socket, ListenTcp(host, port));
  ASSIGN_OR_RETURN(const int bound, BoundPort(socket));
  return std::unique_ptr<RingListener>(new RingListener(std::move(socket), bound));
}

absl::StatusOr<std::unique_ptr<Transport>> ConnectRing(
    std::unique_ptr<RingListener> listener, const RingMember& self,
    absl::string_view right_address, absl::Duration timeout) {
  CHECK_GE(self.ranks, 2);
  ASSIGN_OR_RETURN(std::vector<SocketAddress> addresses, ResolveTcp(right_address));
  return Rendezvous(*listener, self, right_address, std::move(addresses), timeout).Run();
}

}  // namespace psring
