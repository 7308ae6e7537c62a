// How a rank's calls to its peers come about, and what serves their events. Private to
// grpc_transport.
#ifndef PSRING_RING_GRPC_RENDEZVOUS_H_
#define PSRING_RING_GRPC_RENDEZVOUS_H_

#include <cstddef>
#include <memory>
#include <string>
#include <thread>
#include <vector>

#include "absl/status/status.h"
#include "absl/strings/string_view.h"
#include "absl/time/time.h"
#include "common/mutex.h"
#include "grpcpp/generic/async_generic_service.h"
#include "grpcpp/grpcpp.h"
#include "ring/control_message.h"
#include "ring/grpc_lane.h"
#include "ring/grpc_transport.h"
#include "ring/tcp_handshake.h"
#include "ring/tcp_rendezvous.h"

namespace psring {

using GrpcLanePtr = std::shared_ptr<GrpcLane>;

// A server for calls of any name, with the queue of all events of a rank.
class GrpcServerListener final : public GrpcListener {
 public:
  GrpcServerListener(absl::string_view host, int port);
  // No operation is under way.
  ~GrpcServerListener() override;

  bool listens() const { return server_ != nullptr && port_ > 0; }
  int port() const override { return port_; }
  grpc::AsyncGenericService* service() { return &service_; }
  grpc::ServerCompletionQueue* queue() { return queue_.get(); }
  // Ends what is under way; the queue ends when it has been emptied.
  void Shutdown();

 private:
  int port_ = 0;
  grpc::AsyncGenericService service_;
  std::unique_ptr<grpc::ServerCompletionQueue> queue_;
  std::unique_ptr<grpc::Server> server_;
  bool shut_down_ = false;
};

// The calls to one peer.
struct PeerLanes {
  int peer = 0;
  std::string name;
  bool calls = false;              // This rank is the caller.
  GrpcLanePtr control;             // Null until the peer has called.
  std::vector<GrpcLanePtr> lanes;  // In turn, a message at a time.
  size_t sent_messages = 0;
  size_t received_messages = 0;
  ControlReader said;

  GrpcLanePtr& At(int connection) {
    return connection == kControlConnection ? control : lanes[connection];
  }
};

// All lanes of a rank, and the thread that serves their events.
class GrpcLanes {
 public:
  // Calls the peers of higher rank, and awaits the calls of the others.
  GrpcLanes(std::unique_ptr<GrpcServerListener> listener, const RingMember& self,
            const std::vector<PeerAddress>& peers);
  // Waits until all calls are over, for a limited time: until the peers have what was
  // sent.
  ~GrpcLanes();

  // Blocks until all peers are connected; errors as of ConnectPeersOverGrpc.
  absl::Status Connect(absl::Duration timeout);

  GrpcLane::Monitor& monitor() { return monitor_; }
  // Do not change any more once Connect has returned.
  std::vector<PeerLanes>& links() { return links_; }

 private:
  void ServeEvents();
  void Call(PeerLanes& link, const std::string& address);
  void AwaitCall();
  void Answer(const GrpcLanePtr& lane);
  std::vector<GrpcLanePtr> All();
  bool AwaitOver(const std::vector<GrpcLanePtr>& lanes, absl::Duration limit);
  absl::Status LossOfLocked(const PeerLanes& link)
      ABSL_EXCLUSIVE_LOCKS_REQUIRED(monitor_.mutex);
  absl::Status TimeoutErrorLocked() ABSL_EXCLUSIVE_LOCKS_REQUIRED(monitor_.mutex);

  const std::unique_ptr<GrpcServerListener> listener_;
  const RingMember self_;
  GrpcLane::Monitor monitor_;
  std::vector<PeerLanes> links_;  // Guarded by the monitor's mutex until connected.
  bool connected_ = false;        // The same.
  absl::Status misfit_ ABSL_GUARDED_BY(monitor_.mutex);
  // Whose callers are told before this rank leaves.
  std::vector<GrpcLanePtr> misfit_lanes_ ABSL_GUARDED_BY(monitor_.mutex);
  std::thread thread_;
};

}  // namespace psring

#endif  // PSRING_RING_GRPC_RENDEZVOUS_H_
