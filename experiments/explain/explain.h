// `psring explain`.
#ifndef PSRING_EXPERIMENTS_EXPLAIN_EXPLAIN_H_
#define PSRING_EXPERIMENTS_EXPLAIN_EXPLAIN_H_

#include <functional>

#include "CLI/App.hpp"
#include "absl/status/status.h"

namespace psring {

// Adds `explain` to the program's commands. If it is the one that is asked for, parsing
// sets *chosen to what runs it: moves a few floats through the running code, over real
// sockets, and prints step by step what went where. That returns wrong usage, what the
// code under explanation reports, or kDataLoss where it did not do what it should.
void AddExplainCommand(CLI::App* app, std::function<absl::Status()>* chosen);

}  // namespace psring

#endif  // PSRING_EXPERIMENTS_EXPLAIN_EXPLAIN_H_
