// psring's own all-reduces in a benchmark.
#ifndef PSRING_EXPERIMENTS_BENCH_PSRING_RANK_H_
#define PSRING_EXPERIMENTS_BENCH_PSRING_RANK_H_

#include <memory>

#include "experiments/bench/rank.h"

namespace psring {

struct PsringRankOptions {
  int rank = 0;
  int ranks = 0;
};

std::unique_ptr<BenchRank> MakePsringRank(const PsringRankOptions& options);

}  // namespace psring

#endif  // PSRING_EXPERIMENTS_BENCH_PSRING_RANK_H_
