// psring's own all-reduces in a benchmark.
#ifndef PSRING_EXPERIMENTS_BENCH_PSRING_RANK_H_
#define PSRING_EXPERIMENTS_BENCH_PSRING_RANK_H_

#include <cstdint>
#include <memory>
#include <string>

#include "absl/status/statusor.h"
#include "experiments/bench/rank.h"
#include "proto/experiment.pb.h"

namespace psring {

struct PsringRankOptions {
  std::string job;  // Unique among what runs on this machine.
  int rank = 0;
  int ranks = 0;
  RingMode settings;       // With their defaults (experiments/ring_config.h).
  int64_t most_count = 0;  // Elements of the largest operation.
};

// kUnavailable: the rank cannot listen.
absl::StatusOr<std::unique_ptr<BenchRank>> MakePsringRank(
    const PsringRankOptions& options);

}  // namespace psring

#endif  // PSRING_EXPERIMENTS_BENCH_PSRING_RANK_H_
