// The optimizer: one piece of code for servers and ranks, over any slice.
#ifndef PSRING_COMMON_OPTIMIZER_H_
#define PSRING_COMMON_OPTIMIZER_H_

#include <cstdint>
#include <span>
#include <vector>

#include "proto/experiment.pb.h"

namespace psring {

// Stochastic gradient descent with momentum and weight decay over one slice of the
// parameters; owns the slice's state (one float per element with momentum, none
// without). Element-wise: a slice cut in two and updated in two calls gives the same
// bits. Not thread-safe. Source: Sutskever et al., 2013, in the form without dampening.
class SliceOptimizer {
 public:
  SliceOptimizer(const Optimizer& settings, int64_t count);

  // parameters -= update(gradient); `offset` is where the spans begin in the slice.
  void Apply(int64_t offset, std::span<float> parameters,
             std::span<const float> gradient);

  int64_t state_bytes() const {
    return static_cast<int64_t>(velocity_.size() * sizeof(float));
  }

 private:
  const Sgd settings_;
  std::vector<float> velocity_;  // Empty without momentum.
};

}  // namespace psring

#endif  // PSRING_COMMON_OPTIMIZER_H_
