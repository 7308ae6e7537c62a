// The limit of every ring over TCP: bare sockets that move the same bytes in the same
// pattern, without adding, headers or accounting.
#ifndef PSRING_EXPERIMENTS_BENCH_RAW_RANK_H_
#define PSRING_EXPERIMENTS_BENCH_RAW_RANK_H_

#include <memory>

#include "experiments/bench/rank.h"

namespace psring {

// Requires ranks >= 2.
std::unique_ptr<BenchRank> MakeRawRank(int rank, int ranks);

}  // namespace psring

#endif  // PSRING_EXPERIMENTS_BENCH_RAW_RANK_H_
