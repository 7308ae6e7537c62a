// `psring bench apply`: how fast a server's arithmetic is beside the machine's memory.
#ifndef PSRING_EXPERIMENTS_BENCH_APPLY_APPLY_H_
#define PSRING_EXPERIMENTS_BENCH_APPLY_APPLY_H_

#include <functional>
#include <string>

#include "CLI/App.hpp"
#include "absl/status/status.h"

namespace psring {

// Adds `apply` to the benchmarks. If it is the one that is asked for, parsing sets
// *chosen to what runs it: measures, prints the table to stdout and writes the file that
// is asked for. That returns, besides wrong usage:
//   kDataLoss: parameters were wrong; the message has the first, the table counts them.
//   kInternal: a file cannot be written.
// `command` is the command line as printed.
void AddApplyCommand(CLI::App* bench, std::string command,
                     std::function<absl::Status()>* chosen);

}  // namespace psring

#endif  // PSRING_EXPERIMENTS_BENCH_APPLY_APPLY_H_
