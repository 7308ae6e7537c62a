// Ranks that are threads, for tests.
#ifndef PSRING_RING_RING_TEST_UTIL_H_
#define PSRING_RING_RING_TEST_UTIL_H_

#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "ring/transport.h"
#include "ring/transport_collectives.h"

namespace psring {

enum class TransportKind {
  kInProcess,
  kInProcessNarrow,  // Links of 7 bytes: every float straddles.
  kTcp,
  kTcpLanes,  // Three connections to each peer.
  kTcpSpin,
  kGrpc,
  kGrpcLanes,  // Three connections to each peer.
};
std::string TransportKindName(TransportKind kind);

// Connected transports of all ranks, each linked to all others; for one rank, a null one.
std::vector<std::unique_ptr<Transport>> MakeTransports(TransportKind kind, int ranks);

// Every rank's collectives over such transports.
std::vector<std::unique_ptr<TransportCollectives>> MakeCollectives(
    TransportKind kind, const CollectiveOptions& options);

// Runs body(rank) on one thread per rank; returns what each returned.
std::vector<absl::Status> RunRanks(int ranks,
                                   const std::function<absl::Status(int rank)>& body);

}  // namespace psring

#endif  // PSRING_RING_RING_TEST_UTIL_H_
