// Links over gRPC: the wire that parameter servers use.
#ifndef PSRING_RING_GRPC_TRANSPORT_H_
#define PSRING_RING_GRPC_TRANSPORT_H_

#include <memory>
#include <vector>

#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "absl/time/time.h"
#include "ring/tcp_handshake.h"
#include "ring/tcp_rendezvous.h"
#include "ring/transport.h"

namespace psring {

// Where a rank awaits its peers of lower rank. Callers queue up from the start.
class GrpcListener {
 public:
  // As PeerListener::Listen.
  static absl::StatusOr<std::unique_ptr<GrpcListener>> Listen(absl::string_view host,
                                                              int port);
  virtual ~GrpcListener() = default;
  virtual int port() const = 0;
};

// As ConnectPeers (ring/tcp_rendezvous.h), with calls on connections of their own in
// place of connections; both directions of a lane are one call's. Errors alike, but that
// an address without a host is one that cannot be reached.
//
// Payload is copied into gRPC's memory and out of it again. What gRPC adds on the wire is
// not counted. Destroying it waits, for a limited time, until its peers have what was
// sent.
absl::StatusOr<std::unique_ptr<Transport>> ConnectPeersOverGrpc(
    std::unique_ptr<GrpcListener> listener, const RingMember& self,
    const std::vector<PeerAddress>& peers, bool spin, absl::Duration timeout);

}  // namespace psring

#endif  // PSRING_RING_GRPC_TRANSPORT_H_
