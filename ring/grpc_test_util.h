// Ranks that are threads and talk over gRPC, for tests. Apart from ring_test_util, so
// that tests without gRPC can do without it.
#ifndef PSRING_RING_GRPC_TEST_UTIL_H_
#define PSRING_RING_GRPC_TEST_UTIL_H_

#include <memory>
#include <vector>

#include "ring/grpc_transport.h"
#include "ring/ring_test_util.h"

namespace psring {

// As MakeTransports.
template <int kLanes = 1>
std::vector<std::unique_ptr<Transport>> MakeGrpcTransports(int ranks) {
  if (ranks == 1) return std::vector<std::unique_ptr<Transport>>(1);
  return ConnectAll(&ConnectPeersOverGrpc, ranks, kLanes, /*spin=*/false);
}

}  // namespace psring

#endif  // PSRING_RING_GRPC_TEST_UTIL_H_
