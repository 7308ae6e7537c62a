// From measured times to the rows of a benchmark. Pure; each column is defined here.
#ifndef PSRING_EXPERIMENTS_BENCH_RESULT_H_
#define PSRING_EXPERIMENTS_BENCH_RESULT_H_

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

namespace psring {

// One way to sum, as rows name it.
struct Contestant {
  std::string peer;  // "psring", "raw", "gloo", "openmpi".
  std::string algorithm;
  std::string transport;
};

// What one contestant did with one size in one round.
struct BenchRound {
  // Per iteration, of the rank that took longest.
  std::vector<int64_t> times_ns;
  std::optional<int64_t> wrong;  // Elements; nothing where none was checked.
  // Processor time of all its processes during these iterations, where there are servers.
  int64_t processor_ns = 0;
};

// All times are of single operations, over the iterations of all rounds; an iteration
// takes as long as on its slowest rank.
struct BenchRow {
  int64_t size_bytes = 0;  // Of each rank's values: M.
  Contestant contestant;
  double min_us = 0;
  double median_us = 0;
  double p99_us = 0;
  double algbw = 0;  // M / median time, 10^9 bytes per second.
  double busbw =
      0;  // algbw * 2 (N-1) / N: what a link carries if the algorithm is ideal.
  // Elements with a wrong result, over all checked operations and ranks.
  std::optional<int64_t> wrong = {};
  // This row's time divided by that of the row's reference: the median over the rounds
  // of the quotient of both medians in that round. Above 1 the reference is faster.
  // Nothing for a row that is its own reference, or has none.
  std::optional<double> ratio = {};
};

// The middle one, the lower of two; nearest rank for percentiles. Not of empty lists.
int64_t Median(std::vector<int64_t> values);
int64_t Percentile(std::vector<int64_t> values, double percent);

// Of what has been measured in rounds: the median over the rounds of
// times[round] / reference[round]. Both are as long, and not empty.
double MedianRatio(const std::vector<int64_t>& times,
                   const std::vector<int64_t>& reference);

// A contestant's reference is psring's first one over the same transport.
std::optional<int> ReferenceOf(const std::vector<Contestant>& contestants, int index);

// The rows of one size, in the order of the contestants. rounds[c] are contestant c's,
// as many for each, none without times.
std::vector<BenchRow> MakeRows(int64_t size_bytes, int ranks,
                               const std::vector<Contestant>& contestants,
                               const std::vector<std::vector<BenchRound>>& rounds);

}  // namespace psring

#endif  // PSRING_EXPERIMENTS_BENCH_RESULT_H_
