// From the rows of a benchmark to a table of AUTO's. Pure.
#ifndef PSRING_EXPERIMENTS_BENCH_FASTEST_H_
#define PSRING_EXPERIMENTS_BENCH_FASTEST_H_

#include <vector>

#include "experiments/bench/result.h"
#include "proto/experiment.pb.h"

namespace psring {

// For each of psring's transports that has links, and each size, the fastest of its
// algorithms by median; of equal ones the first. Neighbouring sizes with the same winner
// are one row, and the last row has no limit. `rows` are in ascending order of sizes, and
// those of AUTO do not count.
AlgorithmTable FastestAlgorithms(const std::vector<BenchRow>& rows, int ranks);

}  // namespace psring

#endif  // PSRING_EXPERIMENTS_BENCH_FASTEST_H_
