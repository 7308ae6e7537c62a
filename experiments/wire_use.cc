#include "experiments/wire_use.h"

#include <algorithm>
#include <cstdint>

#include "common/wire_type.h"

namespace psring {

WireUse WireUseOf(const JobSpec& spec, const ArmRecords& records) {
  WireUse use{.type = WireType(spec.arm().wire()).name()};
  double max = 0;
  double sum = 0;
  int64_t steps = 0;
  for (const auto& rank : records.steps) {
    for (const StepRecord& step : rank) {
      if (!step.has_drift_max() || step.samples() == 0) continue;
      max = std::max(max, step.drift_max());
      sum += step.drift_mean();
      ++steps;
    }
  }
  if (steps == 0) return use;
  use.drift_max = max;
  use.drift_mean = sum / static_cast<double>(steps);
  return use;
}

}  // namespace psring
