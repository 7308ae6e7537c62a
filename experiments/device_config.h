// What workers compute on: what the settings must satisfy, and words for people. Whether
// it is there, device_check.h says.
#ifndef PSRING_EXPERIMENTS_DEVICE_CONFIG_H_
#define PSRING_EXPERIMENTS_DEVICE_CONFIG_H_

#include <string>

#include "absl/status/status.h"
#include "experiments/config_text.h"
#include "proto/experiment.pb.h"

namespace psring {

// OK, or the first thing that does not go with `device`, before defaults; `origins` tells
// where that stands.
absl::Status CheckDeviceSettings(const Experiment& experiment,
                                 const FieldOrigins& origins);

// "CPU"; "CUDA, a GPU for each worker". Of checked settings.
std::string DescribeDevice(const Experiment& experiment);

}  // namespace psring

#endif  // PSRING_EXPERIMENTS_DEVICE_CONFIG_H_
