// How the ranks of a job find each other over TCP:
//
//   every rank listens, and publishes its host and PeerListener::port() to the others;
//   every rank looks up where its peers of higher rank listen, and calls ConnectPeers.
#ifndef PSRING_RING_TCP_RENDEZVOUS_H_
#define PSRING_RING_TCP_RENDEZVOUS_H_

#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "absl/time/time.h"
#include "common/tcp_socket.h"
#include "ring/tcp_handshake.h"
#include "ring/transport.h"

namespace psring {

// Where a rank awaits its peers of lower rank. Callers queue up from the start.
class PeerListener {
 public:
  // `host`: an address or a name of this host, or empty for all its addresses. Port 0:
  // any free one. kUnavailable: cannot be bound.
  static absl::StatusOr<std::unique_ptr<PeerListener>> Listen(absl::string_view host,
                                                              int port);

  int port() const { return port_; }
  const FileDescriptor& socket() const { return socket_; }

 private:
  PeerListener(FileDescriptor socket, int port)
      : socket_(std::move(socket)), port_(port) {}

  const FileDescriptor socket_;
  const int port_;
};

struct PeerAddress {
  int rank = 0;
  // "host:port" or "[address]:port" where a peer of higher rank listens; a peer of lower
  // rank comes by itself.
  std::string listens_at = {};
};

// Connects this rank with each of `peers`, all at once: self.lanes connections each way
// and one for control. Blocks until all of them stand. Connections by strangers are
// refused, logged, and do no harm. With `spin`, waits of the transport poll without
// sleeping.
//   kDeadlineExceeded: `timeout` passed first; the message says which peers did not
//     come, and what came instead.
//   kFailedPrecondition: a peer belongs to another job, or differs in the number of
//     ranks, the lanes or the layout; the message shows both sides.
//   kInvalidArgument: an address is malformed.
//   kUnavailable: an address has no such host, or the system refuses sockets.
absl::StatusOr<std::unique_ptr<Transport>> ConnectPeers(
    std::unique_ptr<PeerListener> listener, const RingMember& self,
    const std::vector<PeerAddress>& peers, bool spin, absl::Duration timeout);

}  // namespace psring

#endif  // PSRING_RING_TCP_RENDEZVOUS_H_
