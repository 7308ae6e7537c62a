// The coordinator over gRPC: decode, call, encode.
#ifndef PSRING_COMMON_COORDINATOR_SERVICE_H_
#define PSRING_COMMON_COORDINATOR_SERVICE_H_

#include <memory>
#include <string>

#include "absl/status/statusor.h"
#include "common/coordinator.h"

namespace psring {

// Serves one Coordinator until destroyed. A blocked Get or Barrier and an open session
// each hold a thread: a job has few processes, and none of this is on the data path.
class CoordinatorHost {
 public:
  virtual ~CoordinatorHost() = default;

  // `address` is HOST:PORT, port 0 for any free one. `coordinator` outlives the host.
  // Unavailable: the address cannot be bound.
  static absl::StatusOr<std::unique_ptr<CoordinatorHost>> Start(
      const std::string& address, Coordinator* coordinator);

  virtual int port() const = 0;
};

}  // namespace psring

#endif  // PSRING_COMMON_COORDINATOR_SERVICE_H_
