// How the ranks of a job find each other and become a ring over TCP:
//
//   every rank listens, and publishes its host and RingListener::port() to the others;
//   every rank looks up where its right neighbour listens, and calls ConnectRing.
#ifndef PSRING_RING_TCP_RENDEZVOUS_H_
#define PSRING_RING_TCP_RENDEZVOUS_H_

#include <memory>
#include <utility>

#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "absl/time/time.h"
#include "common/tcp_socket.h"
#include "ring/tcp_handshake.h"
#include "ring/transport.h"

namespace psring {

// Where a rank awaits its left neighbour. Callers queue up from the start.
class RingListener {
 public:
  // `host`: an address or a name of this host, or empty for all its addresses. Port 0:
  // any free one. kUnavailable: cannot be bound.
  static absl::StatusOr<std::unique_ptr<RingListener>> Listen(absl::string_view host,
                                                              int port);

  int port() const { return port_; }
  const FileDescriptor& socket() const { return socket_; }

 private:
  RingListener(FileDescriptor socket, int port)
      : socket_(std::move(socket)), port_(port) {}

  const FileDescriptor socket_;
  const int port_;
};

// Connects to the right neighbour, which listens at `right_address` ("host:port" or
// "[address]:port"), and lets the left neighbour connect to `listener`, both at once.
// Blocks until both connections stand. Requires self.ranks >= 2. Connections by
// strangers are refused, logged, and do no harm.
//   kDeadlineExceeded: `timeout` passed first; the message says which neighbour did not
//     come, and what came instead.
//   kFailedPrecondition: a neighbour belongs to another job, or differs in the number of
//     ranks or the layout; the message shows both sides.
//   kInvalidArgument: right_address is malformed.
//   kUnavailable: right_address has no such host, or the system refuses sockets.
absl::StatusOr<std::unique_ptr<Transport>> ConnectRing(
    std::unique_ptr<RingListener> listener, const RingMember& self,
    absl::string_view right_address, absl::Duration timeout);

}  // namespace psring

#endif  // PSRING_RING_TCP_RENDEZVOUS_H_
