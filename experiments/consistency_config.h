// The mode of a parameter-server arm, consistency and placement: what its settings must
// satisfy.
#ifndef PSRING_EXPERIMENTS_CONSISTENCY_CONFIG_H_
#define PSRING_EXPERIMENTS_CONSISTENCY_CONFIG_H_

#include <string>

#include "absl/status/status.h"
#include "experiments/config_text.h"
#include "proto/experiment.pb.h"

namespace psring {

// OK, or the first thing that is wrong with the mode as written at `path`
// ("arms[1].parameter_server"), for an arm with `workers` > 0 workers; `origins` tells
// where that stands. What a mode itself allows is server/policies.h's to say.
absl::Status CheckConsistency(const ParameterServerMode& mode, int workers,
                              const std::string& path, const FieldOrigins& origins);

}  // namespace psring

#endif  // PSRING_EXPERIMENTS_CONSISTENCY_CONFIG_H_
