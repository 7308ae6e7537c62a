// Rings of threads for tests.
#ifndef PSRING_RING_RING_TEST_UTIL_H_
#define PSRING_RING_RING_TEST_UTIL_H_

#include <functional>
#include <memory>
#include <vector>

#include "absl/status/status.h"
#include "ring/transport.h"

namespace psring {

enum class TransportKind {
  kInProcess,
  kInProcessNarrow,  // Links of 7 bytes: every float straddles.
  kTcp,
};

// Connected transports of all ranks; for one rank, a null one.
std::vector<std::unique_ptr<Transport>> MakeRing(TransportKind kind, int ranks);

// Runs body(rank) on one thread per rank; returns what each returned.
std::vector<absl::Status> RunRanks(int ranks,
                                   const std::function<absl::Status(int rank)>& body);

}  // namespace psring

#endif  // PSRING_RING_RING_TEST_UTIL_H_
