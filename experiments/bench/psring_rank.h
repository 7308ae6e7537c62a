// psring's own all-reduces in a benchmark.
#ifndef PSRING_EXPERIMENTS_BENCH_PSRING_RANK_H_
#define PSRING_EXPERIMENTS_BENCH_PSRING_RANK_H_

#include <cstdint>
#include <memory>
#include <string>

#include "absl/status/statusor.h"
#include "experiments/bench/rank.h"

namespace psring {

struct PsringRankOptions {
  std::string job;  // Unique among what runs on this machine.
  int rank = 0;
  int ranks = 0;
  std::string transport;  // "tcp", "shared_memory", "grpc".
  // As in RingMode, in lower case; shared memory has `ring` only.
  std::string algorithm;
  int connections = 1;  // To each peer, where there are connections.
  bool spin = false;
  int64_t most_count = 0;  // Elements of the largest operation.
};

// kInvalidArgument: there is no such transport or algorithm.
absl::StatusOr<std::unique_ptr<BenchRank>> MakePsringRank(
    const PsringRankOptions& options);

}  // namespace psring

#endif  // PSRING_EXPERIMENTS_BENCH_PSRING_RANK_H_
