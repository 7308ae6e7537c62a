// `psring bench step`: how fast a training step is, of psring's and of PyTorch's.
#ifndef PSRING_EXPERIMENTS_BENCH_STEP_STEP_H_
#define PSRING_EXPERIMENTS_BENCH_STEP_STEP_H_

#include <functional>
#include <string>

#include "CLI/App.hpp"
#include "absl/status/status.h"

namespace psring {

// Adds `step` to the benchmarks. If it is the one that is asked for, parsing sets *chosen
// to what runs it: measures, prints the table to stdout and writes the file that is asked
// for. That returns, besides wrong usage and what arms (experiments/arm_runner.h) and
// PyTorch (pytorch.h) end with:
//   kDataLoss: a certificate of a run failed.
//   kInternal: a file cannot be written.
// `command` is the command line as printed.
void AddStepCommand(CLI::App* bench, std::string command,
                    std::function<absl::Status()>* chosen);

}  // namespace psring

#endif  // PSRING_EXPERIMENTS_BENCH_STEP_STEP_H_
