// The causes of exposed time of a whole run, into its database.
#ifndef PSRING_EXPERIMENTS_RUN_WAITS_H_
#define PSRING_EXPERIMENTS_RUN_WAITS_H_

#include <cstdint>

#include "absl/status/status.h"
#include "experiments/sqlite.h"

namespace psring {

// Cuts the exposed time of each step (experiments/waits.h) and adds a row of `waits` for
// it. Once, when all records of the run are in the file: whose fault it was is known only
// with those of all workers.
absl::Status WriteWaits(SqliteConnection& connection, int64_t run);

}  // namespace psring

#endif  // PSRING_EXPERIMENTS_RUN_WAITS_H_
