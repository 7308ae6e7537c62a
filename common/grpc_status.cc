#include "common/grpc_status.h"

#include <string>

#include "common/errors.h"

namespace psring {

grpc::Status ToGrpc(const absl::Status& status) {
  if (status.ok()) return grpc::Status::OK;
  return grpc::Status(static_cast<grpc::StatusCode>(status.code()),
                      std::string(status.message()),
                      ToFailure(status).SerializeAsString());
}

absl::Status FromGrpc(const grpc::Status& status) {
  if (status.ok()) return absl::OkStatus();
  Failure failure;
  if (!status.error_details().empty() &&
      failure.ParseFromString(status.error_details())) {
    return FromFailure(failure);
  }
  if (status.error_code() == grpc::StatusCode::UNAVAILABLE) {
    return PeerLostError(status.error_message());
  }
  return absl::Status(static_cast<absl::StatusCode>(status.error_code()),
                      status.error_message());
}

}  // namespace psring
