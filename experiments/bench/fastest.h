// From the rows of a benchmark to a table of AUTO's. Pure.
#ifndef PSRING_EXPERIMENTS_BENCH_FASTEST_H_
#define PSRING_EXPERIMENTS_BENCH_FASTEST_H_

#include <vector>

#include "experiments/bench/result.h"
#include "proto/experiment.pb.h"

namespace psring {

// For each of psring's transports that has links, from the smallest size on: the fastest
// of its algorithms by median, until another takes a tenth less time. The last row of a
// transport has no limit. Rows of AUTO do not count, and all algorithms have been
// measured at the same sizes.
AlgorithmTable FastestAlgorithms(const std::vector<BenchRow>& rows, int ranks);

}  // namespace psring

#endif  // PSRING_EXPERIMENTS_BENCH_FASTEST_H_
