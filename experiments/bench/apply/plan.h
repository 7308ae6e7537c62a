// What a row of `psring bench apply` measures, and the bytes that it moves and needs.
// Pure.
#ifndef PSRING_EXPERIMENTS_BENCH_APPLY_PLAN_H_
#define PSRING_EXPERIMENTS_BENCH_APPLY_PLAN_H_

#include <cstdint>
#include <string>
#include <vector>

#include "experiments/bench/apply/received.h"
#include "proto/experiment.pb.h"

namespace psring {

// The optimizers that there are, by the names of rows, with settings of their own.
std::vector<std::string> ApplyOptimizerNames();
// Of one of these names.
Optimizer ApplyOptimizer(const std::string& name);

// A row: a server with a model of `buckets` buckets of `count` elements each. An update
// is one of a bucket: the mean of all workers' contributions to it, and the optimizer.
struct ApplyCase {
  int64_t count = 0;
  int contributions = 0;
  std::string optimizer;
  PieceKind pieces = PieceKind::kWhole;
  int64_t buckets = 0;

  int64_t size_bytes() const { return count * int64_t{sizeof(float)}; }
};

// As many buckets as make a row's contributions, parameters and state `working_set_bytes`
// together, or more: who has updated all of them does not find the first in the cache.
int64_t BucketsFor(const ApplyCase& row, int64_t working_set_bytes);

// What an update moves at least: each contribution is read, parameters and optimizer
// state are read and written.
int64_t MovedBytes(const ApplyCase& row);

// An operation of the triad reads two floats of each element and writes one. So many
// elements move what an update moves, and less than one element more.
inline constexpr int64_t kTriadBytesPerElement = 3 * int64_t{sizeof(float)};
int64_t TriadCount(const ApplyCase& row);

// Memory that the row needs, the triad's arrays included.
int64_t MemoryBytes(const ApplyCase& row);

}  // namespace psring

#endif  // PSRING_EXPERIMENTS_BENCH_APPLY_PLAN_H_
