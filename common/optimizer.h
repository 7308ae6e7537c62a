// The optimizers: one piece of code for servers and ranks, over any slice.
#ifndef PSRING_COMMON_OPTIMIZER_H_
#define PSRING_COMMON_OPTIMIZER_H_

#include <cstdint>
#include <memory>
#include <span>
#include <vector>

#include "common/memory_gauge.h"
#include "common/step_constants.h"
#include "proto/experiment.pb.h"

namespace psring {

// Bytes of state that the optimizer keeps for each element that it updates.
int64_t OptimizerStateBytesPerElement(const Optimizer& settings);

// One optimizer over one slice of the parameters; owns the slice's state. Element-wise,
// by the formulas in proto/experiment.proto: a slice cut in parts and updated in several
// calls gives the same bits. So do all processors: only additions, multiplications,
// divisions and square roots occur, which IEEE 754 defines to the last bit. Nothing is
// allocated after construction. Not thread-safe.
//
// Sources: Sutskever et al., 2013 (momentum and nesterov, in the form whose velocity does
// not contain the learning rate and with the gradient not dampened); Kingma and Ba, 2015
// (Adam); Loshchilov and Hutter, 2019 (AdamW); Duchi et al., 2011 (Adagrad).
class SliceOptimizer {
 public:
  // `settings` has a kind, and no default is left to be filled in. `gauge`, if any,
  // counts the state.
  SliceOptimizer(const Optimizer& settings, int64_t count,
                 std::shared_ptr<MemoryGauge> gauge = nullptr);

  // Updates the part of the slice that begins at `offset`. The spans have equal length
  // and do not overlap. `constants` are those of the number of updates before this one.
  void Apply(const StepConstants& constants, int64_t offset, std::span<float> parameters,
             std::span<const float> gradient);

  // The state, one float of each array for each element: what goes into a checkpoint, and
  // comes out of one before the first Apply. The spans live as long as the optimizer.
  std::vector<std::span<float>> state();

  int64_t state_bytes() const {
    return static_cast<int64_t>((first_.size() + second_.size()) * sizeof(float));
  }

 private:
  const Optimizer settings_;
  const int64_t count_;
  // One float per element of the slice, or none.
  std::vector<float> first_;   // Velocity, or Adam's mean of gradients.
  std::vector<float> second_;  // Adam's mean of squares, or Adagrad's sum of them.
  MemoryClaim claim_;          // Of both.
};

}  // namespace psring

#endif  // PSRING_COMMON_OPTIMIZER_H_
