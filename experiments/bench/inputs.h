// What the ranks of a checked operation put in, and what must come out. Pure.
#ifndef PSRING_EXPERIMENTS_BENCH_INPUTS_H_
#define PSRING_EXPERIMENTS_BENCH_INPUTS_H_

#include <cstdint>
#include <string>

namespace psring {

inline constexpr int kMaxBenchRanks = 16;

// A small integer that differs by rank, mostly by index, and by operation:
//
//     64 * 2^rank + 1 + (index + operation) mod 61
//
// Sums over all ranks are below 2^24, so they are exact in any order of additions, and
// what a wrong one lacks or has too much says which rank it was. Requires
// 0 <= rank < kMaxBenchRanks; index and operation are not negative.
float BenchInput(int rank, int64_t operation, int64_t index);

// The sum of the inputs of all ranks.
float BenchSum(int ranks, int64_t operation, int64_t index);

// "element 17: 195 instead of 260: rank 1's value is missing"; the last part only where
// that explains the difference.
std::string DescribeWrongValue(int ranks, int64_t operation, int64_t index, float got,
                               float expected);

}  // namespace psring

#endif  // PSRING_EXPERIMENTS_BENCH_INPUTS_H_
