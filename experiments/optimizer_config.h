// The optimizer of an experiment or arm: what it must satisfy, its defaults, and its
// one-line description.
#ifndef PSRING_EXPERIMENTS_OPTIMIZER_CONFIG_H_
#define PSRING_EXPERIMENTS_OPTIMIZER_CONFIG_H_

#include <cstdint>
#include <string>

#include "absl/status/status.h"
#include "experiments/config_text.h"
#include "proto/experiment.pb.h"

namespace psring {

// OK, or the first thing that is wrong with the optimizer as written at `path`
// ("training.optimizer"), before defaults; `origins` tells where that stands.
absl::Status CheckOptimizer(const Optimizer& optimizer, const std::string& path,
                            const FieldOrigins& origins);

// The defaults that proto/experiment.proto states, but for a cosine's length, which is
// the arm's.
void FillOptimizerDefaults(Optimizer* optimizer);

// "adamw, learning rate 0.001 after a warm-up of 100 steps, then a cosine to 0 times that
// at the end of the run". Of a checked optimizer.
std::string DescribeOptimizer(const Optimizer& optimizer);

}  // namespace psring

#endif  // PSRING_EXPERIMENTS_OPTIMIZER_CONFIG_H_
