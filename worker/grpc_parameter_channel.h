// The parameter channel over gRPC (proto/parameter_server.proto).
#ifndef PSRING_WORKER_GRPC_PARAMETER_CHANNEL_H_
#define PSRING_WORKER_GRPC_PARAMETER_CHANNEL_H_

#include <cstdint>
#include <memory>
#include <string>

#include "absl/time/time.h"
#include "worker/parameter_channel.h"

namespace psring {

struct GrpcParameterChannelOptions {
  std::string job;
  int rank = 0;              // Ours.
  uint64_t incarnation = 0;  // This process's: random, the same for all its channels.
  // Of the job's description (common/job_plan.h); the server's must be the same.
  uint64_t fingerprint = 0;
  int server = 0;       // For error messages.
  std::string address;  // "host:port"
  // The deadline of each request. A little more than the server lets a pull wait, so
  // that its answer, which says whom it waited for, comes first.
  absl::Duration stall_timeout = absl::Seconds(30);
};

// One stream on a connection of its own, and a thread that serves it and calls the
// callbacks.
//
// Connects in the background; the first requests wait for the connection, within their
// deadline. A request that the server refuses is done with its error, and the channel
// goes on. A stream that breaks, or on which a request is not answered in time, ends the
// channel: every request in flight and to come is done with a PeerLostError.
//
// Gradients are sent from where they lie. After an error too, a request is done only when
// gRPC holds its memory no more, for which the channel closes its connection; that does
// not depend on the server.
std::unique_ptr<ParameterChannel> NewGrpcParameterChannel(
    GrpcParameterChannelOptions options);

}  // namespace psring

#endif  // PSRING_WORKER_GRPC_PARAMETER_CHANNEL_H_
