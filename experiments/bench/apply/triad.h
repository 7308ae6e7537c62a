// What the machine's memory can do at most, for loops that read and write: a = b + s * c.
#ifndef PSRING_EXPERIMENTS_BENCH_APPLY_TRIAD_H_
#define PSRING_EXPERIMENTS_BENCH_APPLY_TRIAD_H_

#include <cstdint>
#include <vector>

#include "experiments/bench/apply/thread_team.h"

namespace psring {

// Source: McCalpin, 1995 (STREAM), in floats. Plain stores, as the servers' loops have
// them: the processor also reads what it is about to overwrite, which is not counted.
// One caller.
class Triad {
 public:
  // Arrays of `operations` parts of `count` elements each; the team outlives it.
  Triad(int64_t count, int64_t operations, ThreadTeam* team);

  // Part `operation`, of which each thread takes an equal share.
  void Run(int64_t operation);

  // Elements of that part that are not b + s * c.
  int64_t CountWrong(int64_t operation) const;

 private:
  const int64_t count_;
  ThreadTeam* const team_;
  std::vector<float> a_, b_, c_;
};

}  // namespace psring

#endif  // PSRING_EXPERIMENTS_BENCH_APPLY_TRIAD_H_
