// Errors across gRPC with their exit code, in both directions.
#ifndef PSRING_COMMON_GRPC_STATUS_H_
#define PSRING_COMMON_GRPC_STATUS_H_

#include "absl/status/status.h"
#include "grpcpp/support/status.h"

namespace psring {

grpc::Status ToGrpc(const absl::Status& status);

// Errors that gRPC itself made (no connection, deadline, cancelled) keep their code and
// message; UNAVAILABLE becomes PeerLostError.
absl::Status FromGrpc(const grpc::Status& status);

}  // namespace psring

#endif  // PSRING_COMMON_GRPC_STATUS_H_
