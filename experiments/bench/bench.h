// `psring bench`.
#ifndef PSRING_EXPERIMENTS_BENCH_BENCH_H_
#define PSRING_EXPERIMENTS_BENCH_BENCH_H_

#include <functional>
#include <string>

#include "CLI/App.hpp"
#include "absl/status/status.h"

namespace psring {

// Adds `bench` to the program's commands: `bench step` (step/step.h), `bench apply`
// (apply/apply.h), `bench push-pull` (push_pull/push_pull.h), and `bench all-reduce`. If
// the last one is asked for, parsing sets *chosen to what runs it: measures, prints the
// table to stdout and writes the files that are asked for. That returns, besides wrong
// usage and what Conductor says:
//   kDataLoss: a result was wrong; the message has the first, the table counts them.
//   kFailedPrecondition, exit code kSkipped: a peer was not built.
//   kInternal: a file cannot be written.
// `command` is the command line as printed.
void AddBenchCommand(CLI::App* app, std::string command,
                     std::function<absl::Status()>* chosen);

}  // namespace psring

#endif  // PSRING_EXPERIMENTS_BENCH_BENCH_H_
