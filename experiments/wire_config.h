// Settings of what gradients are on their way (Arm.wire): their rules and default. Pure.
#ifndef PSRING_EXPERIMENTS_WIRE_CONFIG_H_
#define PSRING_EXPERIMENTS_WIRE_CONFIG_H_

#include <string>

#include "absl/status/status.h"
#include "experiments/config_text.h"
#include "proto/experiment.pb.h"

namespace psring {

// Of an arm with a mode; `path` is the arm's.
absl::Status CheckWire(const Arm& arm, const std::string& path,
                       const FieldOrigins& origins);

// fp32 where something is sent.
void FillWireDefault(Arm* arm);

}  // namespace psring

#endif  // PSRING_EXPERIMENTS_WIRE_CONFIG_H_
