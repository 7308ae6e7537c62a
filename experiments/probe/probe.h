// `psring probe`.
#ifndef PSRING_EXPERIMENTS_PROBE_PROBE_H_
#define PSRING_EXPERIMENTS_PROBE_PROBE_H_

#include <functional>

#include "CLI/App.hpp"
#include "absl/status/status.h"

namespace psring {

// Adds `probe` to the program's commands. If it is the one that is asked for, parsing
// sets *chosen to what runs it: measures the links and the arithmetic that an
// experiment's arms depend on, and prints what follows for each arm. That returns wrong
// usage or configuration, what the machine cannot do, or what failed.
void AddProbeCommand(CLI::App* app, std::function<absl::Status()>* chosen);

}  // namespace psring

#endif  // PSRING_EXPERIMENTS_PROBE_PROBE_H_
