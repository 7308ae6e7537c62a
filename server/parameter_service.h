// A parameter shard on the network: a gRPC server of one service.
#ifndef PSRING_SERVER_PARAMETER_SERVICE_H_
#define PSRING_SERVER_PARAMETER_SERVICE_H_

#include <cstdint>
#include <memory>
#include <string>

#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "absl/time/time.h"
#include "common/wire_type.h"
#include "server/parameter_shard.h"

namespace psring {

// Speaks proto/parameter_server.proto; what a request says is the shard's business.
//
// Refuses the streams of workers that do not belong here before a message of theirs is
// read. A worker that connects again as another process (another incarnation) takes the
// place of the one before, whose streams are ended, and which is refused when it comes
// again.
//
// Memory: received gradients are held until their round closes (with a wire other than
// fp32 as the floats that they become), and answers reference the shard's parameters.
// Beyond that, a stream costs one message that has been read or is being read, at most
// the largest slot and its header, and answers that the worker has not read yet: less
// than a slot more than twice the parameters, of versions that may all be older than the
// current one.
//
// Streams take turns, one message each (turn_queue.h); slots are worked on at the same
// time by as many threads as there are, one thread a slot.
//
// Start and Shutdown are called by one thread.
class ParameterServerHost {
 public:
  struct Options {
    std::string job;
    // Of the job's description (common/job_plan.h); the workers' must be the same.
    uint64_t fingerprint = 0;
    // What gradients are on their way. A push that is none such ends its stream.
    WireType wire = {};
    // How long a pull may be parked before it is answered with PeerLostError and the
    // names of those it waits for. Shorter than the workers' own patience (the deadline
    // of their requests), so that the names reach them.
    absl::Duration stall_timeout = absl::Seconds(25);
  };

  ParameterServerHost(Options options, std::shared_ptr<ParameterShard> shard);
  // Shuts down.
  ~ParameterServerHost();
  ParameterServerHost(const ParameterServerHost&) = delete;
  ParameterServerHost& operator=(const ParameterServerHost&) = delete;

  // Listens at "host:port", port 0 for any free one, and serves from now on; once.
  // Returns the port. kUnavailable: the address cannot be listened at; kInvalidArgument:
  // a slot is too large for a message.
  absl::StatusOr<int> Start(absl::string_view address);

  // Aborts the shard (the first reason counts: one given before stays), so that parked
  // pulls are answered, and ends all streams behind their last answers; what is still
  // being sent after `grace` is dropped. Returns when no stream is left. Later calls do
  // nothing.
  void Shutdown(absl::Duration grace);

 private:
  class Impl;
  const std::unique_ptr<Impl> impl_;
};

}  // namespace psring

#endif  // PSRING_SERVER_PARAMETER_SERVICE_H_
