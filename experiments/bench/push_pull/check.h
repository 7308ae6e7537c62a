// What the workers of a checked operation push, and what must come of it. Pure.
#ifndef PSRING_EXPERIMENTS_BENCH_PUSH_PULL_CHECK_H_
#define PSRING_EXPERIMENTS_BENCH_PUSH_PULL_CHECK_H_

#include <cstdint>
#include <span>
#include <string>

#include "experiments/bench/push_pull/plan.h"

namespace psring {

// A small integer that differs by worker, mostly by index, and by operation: 1 to 77 with
// 16 workers, which every wire has exactly, and whose sums over 10,000 operations are
// exact as floats.
float PushPullInput(int worker, int64_t operation, int64_t index);

// A parameter that was 0 and has seen that many operations of all workers, by SGD with a
// learning rate of 1. In lockstep an operation is one update by the mean, in the same
// operations on floats as a server's; otherwise each push is one, exact in any order.
float PushPullExpected(bool lockstep, int workers, int64_t operations, int64_t index);

struct Wrong {
  int64_t elements = 0;
  std::string first;  // "element 17: 3 instead of 4"
};

// Of parameters after all checked operations have settled.
Wrong WrongParameters(bool lockstep, int workers, int64_t operations,
                      std::span<const float> parameters);

// Of answers that must be the pushes of the same slots, as often as the plan says,
// compared as bits.
Wrong WrongEchoes(const PushPullPlan& plan, std::span<float> gradients,
                  std::span<float> parameters);

}  // namespace psring

#endif  // PSRING_EXPERIMENTS_BENCH_PUSH_PULL_CHECK_H_
