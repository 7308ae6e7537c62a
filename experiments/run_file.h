// The recorded run that a command is about.
#ifndef PSRING_EXPERIMENTS_RUN_FILE_H_
#define PSRING_EXPERIMENTS_RUN_FILE_H_

#include <memory>
#include <string>

#include "absl/status/statusor.h"
#include "experiments/sqlite.h"

namespace psring {

// Opens the run database that `run` names: a run folder, or its run.db. All that is read
// through the connection is as of one moment, also of a run that goes on. Errors are one
// line that names the file, and wrong usage by their exit code: there is no such file, it
// is no run database, or one of another schema version.
absl::StatusOr<std::unique_ptr<SqliteConnection>> OpenRun(const std::string& run);

}  // namespace psring

#endif  // PSRING_EXPERIMENTS_RUN_FILE_H_
