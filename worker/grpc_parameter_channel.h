// The parameter channel over gRPC (proto/parameter_server.proto).
#ifndef PSRING_WORKER_GRPC_PARAMETER_CHANNEL_H_
#define PSRING_WORKER_GRPC_PARAMETER_CHANNEL_H_

#include <memory>
#include <string>

#include "absl/time/time.h"
#include "worker/parameter_channel.h"

namespace psring {

struct GrpcParameterChannelOptions {
  std::string job;
  int rank = 0;         // Ours.
  int server = 0;       // For error messages.
  std::string address;  // "host:port"
  // The deadline of each request. A little more than the server lets a pull wait, so
  // that its answer, which says whom it waited for, comes first.
  absl::Duration stall_timeout = absl::Seconds(30);
};

// Connects in the background. Until a request has succeeded, requests wait for the
// connection (within their deadline); after that a lost connection is an error at once.
std::unique_ptr<ParameterChannel> NewGrpcParameterChannel(
    GrpcParameterChannelOptions options);

}  // namespace psring

#endif  // PSRING_WORKER_GRPC_PARAMETER_CHANNEL_H_
