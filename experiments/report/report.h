// `psring report`.
#ifndef PSRING_EXPERIMENTS_REPORT_REPORT_H_
#define PSRING_EXPERIMENTS_REPORT_REPORT_H_

#include <functional>
#include <string>

#include "CLI/App.hpp"
#include "absl/status/status.h"
#include "experiments/report/run_results.h"

namespace psring {

// Adds `report` to the program's commands. If it is the one that is asked for, parsing
// sets *chosen to what runs it: reads a run folder and writes its page. Exit code 2: it
// is no run; 77: the program was built without the chart library.
void AddReportCommand(CLI::App* app, std::function<absl::Status()>* chosen);

// Writes the page of a run to a file, replacing one of that name at once or not at all.
// kUnimplemented with exit code 77 where the program was built without the chart library.
absl::Status WriteReport(RunResults run, const std::string& path);

}  // namespace psring

#endif  // PSRING_EXPERIMENTS_REPORT_REPORT_H_
