// What an arm's gradients were on their way, and what came of it. Pure.
#ifndef PSRING_EXPERIMENTS_WIRE_USE_H_
#define PSRING_EXPERIMENTS_WIRE_USE_H_

#include <optional>
#include <string>

#include "experiments/arm_records.h"
#include "proto/coordinator.pb.h"

namespace psring {

struct WireUse {
  std::string type = "fp32";  // As WireType::name.
  // Of |sent - gradient| / |gradient|, over all elements that are not 0, steps and ranks:
  // the largest, and the mean of the steps' means. None with fp32, or without a step.
  std::optional<double> drift_max = std::nullopt;
  std::optional<double> drift_mean = std::nullopt;
  // The arm that differs in nothing but having fp32, and the final training loss of this
  // one less that one's, with the same seed. None where there is no such arm
  // (experiments/compare_wires.h).
  std::string fp32_arm = "";
  std::optional<double> loss_over_fp32 = std::nullopt;

  bool is_fp32() const { return type == "fp32"; }
};

// All that a run by itself tells.
WireUse WireUseOf(const JobSpec& spec, const ArmRecords& records);

}  // namespace psring

#endif  // PSRING_EXPERIMENTS_WIRE_USE_H_
