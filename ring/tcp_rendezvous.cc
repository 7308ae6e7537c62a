#include "ring/tcp_rendezvous.h"

#include <poll.h>

#include <algorithm>
#include <cerrno>
#include <chrono>
#include <cstring>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "common/errors.h"
#include "common/mutex.h"
#include "common/status_macros.h"
#include "glog/logging.h"
#include "ring/tcp_transport.h"

namespace psring {
namespace {

using Clock = std::chrono::steady_clock;

// Between attempts to reach a peer that does not answer.
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

// One rank's side of the rendezvous, as one loop over non-blocking sockets. Of two peers
// the lower rank calls. Both kinds of work share the loop, so that no order of connecting
// can deadlock:
//
//   calls, one per connection to a peer of higher rank: connect, send our Handshake,
//   await
//     the answer; after a failure again, with the next address, until the deadline. A
//     refusal is final.
//   callers: accept everyone, await each one's Handshake, answer it. Strangers are
//     refused, and one that never says anything holds up nobody. A peer that calls again
//     had no answer the first time: the last call counts.
class Rendezvous {
 public:
  Rendezvous(const PeerListener& listener, const RingMember& self, absl::Duration timeout)
      : listener_(listener), self_(self), deadline_(SteadyDeadline(timeout)) {}

  absl::Status AddPeer(const PeerAddress& peer) {
    std::vector<SocketAddress> addresses;
    std::string name = absl::StrCat("worker ", peer.rank);
    if (peer.rank > self_.rank) {
      ASSIGN_OR_RETURN(addresses, ResolveTcp(peer.listens_at));
      absl::StrAppend(&name, " (", peer.listens_at, ")");
    }
    for (int connection = kControlConnection; connection < ConnectionsEnd(self_.lanes);
         ++connection) {
      sides_.push_back({.peer = peer.rank,
                        .connection = connection,
                        .name = name,
                        .addresses = addresses});
    }
    return absl::OkStatus();
  }

  absl::StatusOr<std::unique_ptr<Transport>> Run(bool spin) {
    while (!std::ranges::all_of(sides_, &Side::done)) {
      const Clock::time_point now = Clock::now();
      if (now >= deadline_) return TimeoutError();
      for (Side& side : sides_) {
        if (side.calls() && !side.talk.socket.open() && now >= side.retry_at) Call(side);
      }
      RETURN_IF_ERROR(PollOnce());
    }
    return TcpTransport::Make(self_.rank, TakeLinks(), spin);
  }

 private:
  // This end of one connection to be.
  struct Side {
    int peer = 0;
    int connection = 0;
    std::string name;
    std::vector<SocketAddress> addresses;  // Where to call; none: the peer calls.
    size_t attempts = 0;
    Clock::time_point retry_at = {};
    Conversation talk = {};  // Not open: waits for retry_at, or for the caller.
    bool connected = false;  // A call has got through and sent its Handshake.
    bool done = false;
    std::string trouble = {};  // What ended the last attempt.

    bool calls() const { return !addresses.empty(); }
  };

  std::vector<TcpLink> TakeLinks() {
    std::vector<TcpLink> links;
    for (Side& side : sides_) {
      if (side.connection == kControlConnection) {
        std::string name = side.calls()
                               ? side.name
                               : absl::StrCat(side.name, " (", side.talk.address, ")");
        // One handshake each way on every connection.
        const int64_t opening = int64_t{sizeof(Handshake)} *
                                (ConnectionsEnd(self_.lanes) - kControlConnection);
        links.push_back({.peer = {.rank = side.peer,
                                  .name = std::move(name),
                                  .opening = {.out = opening, .in = opening}},
                         .control = std::move(side.talk.socket),
                         .out = {},
                         .in = {}});
      } else {
        const bool out = IsFromCaller(side.connection) == side.calls();
        (out ? links.back().out : links.back().in).push_back(std::move(side.talk.socket));
      }
    }
    return links;
  }

  absl::Status PollOnce() {
    std::vector<pollfd> polled;
    polled.push_back({.fd = listener_.socket().get(), .events = POLLIN, .revents = 0});
    Clock::time_point until = deadline_;
    for (const Side& side : sides_) {
      const bool talking = side.calls() && !side.done && side.talk.socket.open();
      if (side.calls() && !side.talk.socket.open())
        until = std::min(until, side.retry_at);
      polled.push_back({.fd = talking ? side.talk.socket.get() : -1,
                        .events = static_cast<short>(side.connected ? POLLIN : POLLOUT),
                        .revents = 0});
    }
    for (const Conversation& caller : callers_) {
      polled.push_back({.fd = caller.socket.get(), .events = POLLIN, .revents = 0});
    }
    const int events = poll(polled.data(), polled.size(),
                            PollMilliseconds(absl::FromChrono(until - Clock::now())));
    if (events < 0 && errno != EINTR) {
      return absl::InternalError(absl::StrCat("poll: ", std::strerror(errno)));
    }
    if (events <= 0) return absl::OkStatus();
    for (size_t i = 0; i < sides_.size(); ++i) {
      if (polled[1 + i].revents != 0) RETURN_IF_ERROR(ServeCall(sides_[i]));
    }
    for (size_t i = 0; i < callers_.size(); ++i) {
      if (polled[1 + sides_.size() + i].revents != 0) {
        RETURN_IF_ERROR(ServeCaller(callers_[i]));
      }
    }
    std::erase_if(callers_, [](const auto& caller) { return !caller.socket.open(); });
    if (polled[0].revents != 0) RETURN_IF_ERROR(AcceptCallers());
    return absl::OkStatus();
  }

  // --- Calls.

  void Call(Side& side) {
    const SocketAddress& address =
        side.addresses[side.attempts++ % side.addresses.size()];
    absl::StatusOr<FileDescriptor> socket = StartConnectTcp(address);
    if (!socket.ok()) return Retry(side, socket.status());
    side.talk = {.socket = *std::move(socket), .address = address.ToString()};
    side.connected = false;
  }

  static void Retry(Side& side, const absl::Status& cause) {
    side.talk = {};
    side.trouble = std::string(cause.message());
    side.retry_at = Clock::now() + absl::ToChronoNanoseconds(kRetryPause);
  }

  absl::Status ServeCall(Side& side) {
    absl::Status status;
    if (side.connected) {
      status = ReadHandshake(side.talk);
    } else {
      status = SocketError(side.talk.socket);
      if (status.ok()) {
        status = WriteHandshake(
            side.talk.socket,
            MakeHandshake(self_, side.peer, side.connection, HandshakeVerdict::kAsking));
      }
      side.connected = true;
    }
    if (!status.ok()) {
      Retry(side, status);
      return absl::OkStatus();
    }
    if (!side.talk.complete()) return absl::OkStatus();

    const absl::Status judgement = JudgeHandshake(side.talk.handshake, self_, side.peer);
    if (!judgement.ok()) {
      return absl::FailedPreconditionError(
          absl::StrCat(side.name, ": ", judgement.message()));
    }
    if (side.talk.handshake.verdict != HandshakeVerdict::kWelcome) {
      return absl::FailedPreconditionError(
          absl::StrCat(side.name, " refused this rank; its log says why"));
    }
    side.done = true;
    return absl::OkStatus();
  }

  // --- Callers.

  absl::Status AcceptCallers() {
    for (;;) {
      ASSIGN_OR_RETURN(AcceptedTcp accepted, AcceptTcp(listener_.socket()));
      if (!accepted.socket.open()) return absl::OkStatus();
      callers_.push_back(
          {.socket = std::move(accepted.socket), .address = std::move(accepted.address)});
    }
  }

  absl::Status ServeCaller(Conversation& caller) {
    if (const absl::Status status = ReadHandshake(caller); !status.ok()) {
      return Refuse(caller, status);
    }
    const bool hopeless =
        caller.received >= sizeof(caller.handshake.magic) && !HasMagic(caller.handshake);
    if (!caller.complete() && !hopeless) return absl::OkStatus();
    Side* const side = SideOf(caller.handshake);
    const int expected = side == nullptr ? AwaitedRank() : side->peer;
    absl::Status judgement = JudgeHandshake(caller.handshake, self_, expected);
    if (judgement.ok() && side == nullptr) {
      judgement = absl::NotFoundError("nobody is expected any more");
    }
    if (!judgement.ok()) return Refuse(caller, judgement);

    const absl::Status answered = WriteHandshake(
        caller.socket,
        MakeHandshake(self_, side->peer, side->connection, HandshakeVerdict::kWelcome));
    if (!answered.ok()) return Refuse(caller, answered);
    side->talk = std::move(caller);
    side->done = true;
    return absl::OkStatus();
  }

  // The connection that the caller means; null where no such peer calls. A lane that is
  // not there is the judgement's to name.
  Side* SideOf(const Handshake& handshake) {
    Side* of_peer = nullptr;
    for (Side& side : sides_) {
      if (side.calls() || side.peer != handshake.sender) continue;
      if (side.connection == handshake.connection) return &side;
      if (of_peer == nullptr) of_peer = &side;
    }
    return of_peer;
  }

  // The first rank that has still to call, for messages; -1: none.
  int AwaitedRank() const {
    for (const Side& side : sides_) {
      if (!side.calls() && !side.done) return side.peer;
    }
    return -1;
  }

  // Turns a caller away; an error only if it is a peer that does not fit.
  absl::Status Refuse(Conversation& caller, const absl::Status& reason) {
    if (caller.complete() && HasMagic(caller.handshake)) {
      // Best effort: the caller may have gone.
      (void)WriteHandshake(caller.socket, MakeHandshake(self_, caller.handshake.sender,
                                                        caller.handshake.connection,
                                                        HandshakeVerdict::kRefused));
    }
    const std::string text =
        absl::StrCat("connection from ", caller.address, " refused: ", reason.message());
    caller.socket = FileDescriptor();
    if (absl::IsFailedPrecondition(reason)) return absl::FailedPreconditionError(text);
    LOG(WARNING) << "worker " << self_.rank << " of job '" << self_.job << "' at port "
                 << listener_.port() << ": " << text;
    caller_trouble_ = text;
    return absl::OkStatus();
  }

  absl::Status TimeoutError() const {
    std::vector<std::string> missing;
    int named = -1;  // Once for all connections of a peer.
    bool awaited = false;
    for (const Side& side : sides_) {
      if (side.done || side.peer == named) continue;
      named = side.peer;
      awaited |= !side.calls();
      if (!side.calls()) {
        missing.push_back(
            absl::StrCat(side.name, " never connected to port ", listener_.port()));
      } else if (side.connected && side.talk.socket.open()) {
        missing.push_back(absl::StrCat(side.name, " did not answer"));
      } else {
        missing.push_back(absl::StrCat(side.name, " could not be reached"));
      }
      if (!side.trouble.empty()) {
        absl::StrAppend(&missing.back(), " (", side.trouble, ")");
      }
    }
    std::string text = absl::StrCat("job '", self_.job, "', worker ", self_.rank, " of ",
                                    self_.ranks, ": ", absl::StrJoin(missing, "; "));
    if (awaited && !caller_trouble_.empty()) {
      absl::StrAppend(&text, " (", caller_trouble_, ")");
    }
    return RendezvousTimeoutError(text);
  }

  const PeerListener& listener_;
  const RingMember& self_;
  const Clock::time_point deadline_;

  std::vector<Side> sides_;  // By peer; of each the control connection, then the lanes.
  std::vector<Conversation> callers_;
  std::string caller_trouble_;  // Who was turned away last.
};

}  // namespace

absl::StatusOr<std::unique_ptr<PeerListener>> PeerListener::Listen(absl::string_view host,
                                                                   int port) {
  ASSIGN_OR_RETURN(FileDescriptor socket, ListenTcp(host, port));
  ASSIGN_OR_RETURN(const int bound, BoundPort(socket));
  return std::unique_ptr<PeerListener>(new PeerListener(std::move(socket), bound));
}

absl::StatusOr<std::unique_ptr<Transport>> ConnectPeers(
    std::unique_ptr<PeerListener> listener, const RingMember& self,
    const std::vector<PeerAddress>& peers, bool spin, absl::Duration timeout) {
  CHECK_GE(self.lanes, 1);
  Rendezvous rendezvous(*listener, self, timeout);
  for (const PeerAddress& peer : peers) RETURN_IF_ERROR(rendezvous.AddPeer(peer));
  return rendezvous.Run(spin);
}

}  // namespace psring
