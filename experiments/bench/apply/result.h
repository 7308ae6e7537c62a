// From measured times to the rows of `psring bench apply`. Pure; each column is defined
// here.
#ifndef PSRING_EXPERIMENTS_BENCH_APPLY_RESULT_H_
#define PSRING_EXPERIMENTS_BENCH_APPLY_RESULT_H_

#include <cstdint>
#include <vector>

#include "experiments/bench/apply/plan.h"

namespace psring {

// A round: all buckets have been updated once, and the triad has done as many operations.
struct ApplyRound {
  std::vector<int64_t> update_ns;
  std::vector<int64_t> triad_ns;
};

struct ApplyRow {
  ApplyCase row;
  // Of single updates, over all rounds.
  double min_us = 0;
  double median_us = 0;
  double p99_us = 0;
  // Bytes moved (MovedBytes, the triad's own) / median time, in 10^9 bytes per second.
  double speed = 0;
  double triad_speed = 0;
  // speed / triad_speed: the median over the rounds of the quotient in that round, of
  // both medians.
  double ratio = 0;
  int64_t wrong = 0;  // Elements of the bucket that is checked.
};

// `rounds` are not empty, nor the times in them.
ApplyRow MakeApplyRow(const ApplyCase& row, const std::vector<ApplyRound>& rounds,
                      int64_t wrong);

}  // namespace psring

#endif  // PSRING_EXPERIMENTS_BENCH_APPLY_RESULT_H_
