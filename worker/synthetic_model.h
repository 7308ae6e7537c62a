// Gradients that nobody has computed, for exchanging them alone.
#ifndef PSRING_WORKER_SYNTHETIC_MODEL_H_
#define PSRING_WORKER_SYNTHETIC_MODEL_H_

#include <cstdint>
#include <memory>

#include "common/layout.h"
#include "worker/model.h"

namespace psring {

// A wrong sum names its culprit: gradients of different ranks are multiples of one
// number, so what a sum is off by, divided by rank 0's gradient, is the rank + 1 that is
// missing or was added twice.
//
//   gradient(rank, step, element) = (rank + 1) * m(step, element) / 1024
//
// with whole numbers 1 <= |m| <= 32. Sums over up to 1000 ranks are exact, and so the
// same in every order of addition.
float SyntheticGradient(int rank, int64_t step, int64_t element);

// A model of any layout. Forward computes nothing and has no loss (not a number); each
// `passes` of them are those of one step, from `first_step` on. Backward writes the
// gradients of that step, whatever the batch and the parameters are. The mean over passes
// is exact too where these are 1, 2, 4, ... or kMostExactPasses.
std::unique_ptr<Model> MakeSyntheticModel(ParameterLayout layout, int rank,
                                          int64_t passes = 1, int64_t first_step = 0);
inline constexpr int64_t kMostExactPasses = 512;

}  // namespace psring

#endif  // PSRING_WORKER_SYNTHETIC_MODEL_H_
