// `psring bench push-pull`.
#ifndef PSRING_EXPERIMENTS_BENCH_PUSH_PULL_PUSH_PULL_H_
#define PSRING_EXPERIMENTS_BENCH_PUSH_PULL_PUSH_PULL_H_

#include <functional>
#include <string>

#include "CLI/App.hpp"
#include "absl/status/status.h"

namespace psring {

// Adds `push-pull` to the benchmarks. If it is asked for, parsing sets *chosen to what
// runs it: measures, prints the tables to stdout and writes the files that are asked for.
// That returns, besides wrong usage and what Conductor says:
//   kDataLoss: a result was wrong; the message has the first, the table counts them.
//   kInternal: a file cannot be written.
// `command` is the command line as printed.
void AddPushPullCommand(CLI::App* bench, std::string command,
                        std::function<absl::Status()>* chosen);

}  // namespace psring

#endif  // PSRING_EXPERIMENTS_BENCH_PUSH_PULL_PUSH_PULL_H_
