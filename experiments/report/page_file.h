// A page as a file, with what the program carries for it.
#ifndef PSRING_EXPERIMENTS_REPORT_PAGE_FILE_H_
#define PSRING_EXPERIMENTS_REPORT_PAGE_FILE_H_

#include <string>

#include "absl/status/status.h"
#include "absl/strings/string_view.h"
#include "experiments/report/page_shell.h"

namespace psring {

// kUnimplemented with exit code 77 where the program was built without the chart library:
// a line that begins with the command and ends with what says the same `otherwise`.
absl::Status CheckChartLibrary(absl::string_view command, absl::string_view otherwise);

// The program's own.
PageAssets CarriedAssets();

// Writes a file, replacing one of that name at once or not at all. InvalidArgument: there
// can be no file of that name. Internal: its disk has no room, or fails.
absl::Status WritePage(const std::string& path, absl::string_view page);

}  // namespace psring

#endif  // PSRING_EXPERIMENTS_REPORT_PAGE_FILE_H_
