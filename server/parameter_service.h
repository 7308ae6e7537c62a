// A parameter shard on the network: a gRPC server of one service.
#ifndef PSRING_SERVER_PARAMETER_SERVICE_H_
#define PSRING_SERVER_PARAMETER_SERVICE_H_

#include <memory>
#include <string>

#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "absl/time/time.h"
#include "server/parameter_shard.h"

namespace psring {

// Decodes requests, calls the shard, encodes its answers (proto/parameter_server.proto).
// Refuses requests of another job with kInvalidArgument; every other check is the
// shard's. A parked pull holds no thread, and leaves the shard when its client goes.
//
// Start and Shutdown are called by one thread.
class ParameterServerHost {
 public:
  struct Options {
    std::string job;
    // How long a pull may be parked before it is answered with PeerLostError and the
    // names of those it waits for. Shorter than the workers' own patience (the deadline
    // of their calls), so that the names reach them.
    absl::Duration stall_timeout = absl::Seconds(25);
  };

  ParameterServerHost(Options options, std::shared_ptr<ParameterShard> shard);
  // Shuts down.
  ~ParameterServerHost();
  ParameterServerHost(const ParameterServerHost&) = delete;
  ParameterServerHost& operator=(const ParameterServerHost&) = delete;

  // Listens at "host:port", port 0 for any free one, and serves from now on; once.
  // Returns the port. kUnavailable: the address cannot be listened at.
  absl::StatusOr<int> Start(absl::string_view address);

  // Aborts the shard (the first reason counts: one given before stays), so that parked
  // pulls are answered; calls that are still being sent or received are dropped after
  // `grace`. Returns when no call is left. Later calls do nothing.
  void Shutdown(absl::Duration grace);

 private:
  class Impl;
  const std::unique_ptr<Impl> impl_;
};

}  // namespace psring

#endif  // PSRING_SERVER_PARAMETER_SERVICE_H_
