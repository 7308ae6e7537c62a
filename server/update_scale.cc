#include "server/update_scale.h"

#include <algorithm>

#include "common/arithmetic.h"

namespace psring {
namespace {

float ScaleOf(const StaleUpdates& settings, int64_t staleness, int workers) {
  switch (settings.scale()) {
    case StaleUpdates::MEAN:
      return MeanFactor(workers);
    case StaleUpdates::INVERSE_STALENESS:
      return MeanFactor(std::max<int64_t>(1, staleness));
    default:
      return 1;
  }
}

StepConstants Scaled(StepConstants constants, float scale) {
  constants.learning_rate *= scale;
  constants.adam_step_size *= scale;
  return constants;
}

}  // namespace

StepConstants ScaledForUpdate(const ConsistencyPromise& promise,
                              const StaleUpdates& settings, int workers,
                              int contributions, int64_t staleness,
                              StepConstants constants) {
  if (!promise.rounds) return Scaled(constants, ScaleOf(settings, staleness, workers));
  if (promise.even) return constants;
  return Scaled(constants, static_cast<float>(contributions) /
                               static_cast<float>(promise.contributions_per_update));
}

}  // namespace psring
