// `psring figures`.
#ifndef PSRING_EXPERIMENTS_FIGURES_FIGURES_H_
#define PSRING_EXPERIMENTS_FIGURES_FIGURES_H_

#include <functional>

#include "CLI/App.hpp"
#include "absl/status/status.h"

namespace psring {

// Adds `figures` to the program's commands. If it is the one that is asked for, parsing
// sets *chosen to what runs it: writes the page of figures, and its path to stdout. Exit
// code 2: something that was named is no run, or a run without steps on servers, or the
// file cannot be written; 77: the program was built without the chart library.
void AddFiguresCommand(CLI::App* app, std::function<absl::Status()>* chosen);

}  // namespace psring

#endif  // PSRING_EXPERIMENTS_FIGURES_FIGURES_H_
