// The steps of all workers of a run, side by side, out of the run database.
#ifndef PSRING_EXPERIMENTS_STEP_READER_H_
#define PSRING_EXPERIMENTS_STEP_READER_H_

#include <cstdint>
#include <limits>
#include <span>
#include <vector>

#include "absl/functional/function_ref.h"
#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "experiments/aligned_clocks.h"
#include "experiments/sqlite.h"
#include "proto/record.pb.h"

namespace psring {

// What a run's steps are seen with.
struct RunFrame {
  int workers = 0;
  // Each bucket is exchanged with all workers, who make the same steps (`runs.lockstep`).
  bool lockstep = false;
  std::vector<int64_t> bucket_bytes;  // By index.
  AlignedClocks clocks;
};

absl::StatusOr<RunFrame> ReadRunFrame(SqliteConnection& connection, int64_t run);

// Step numbers, both included.
struct StepRange {
  int64_t first = 0;
  int64_t last = std::numeric_limits<int64_t>::max();
};

// Calls `take` with each step number of the run in `range`, in order, and the records of
// all ranks; null where a rank has none. Of a record there are rank, step, parts of its
// time, and buckets; peer_late_ns and waited_for are as the worker reported them. No more
// is kept than a step of each rank.
absl::Status ForEachStep(
    SqliteConnection& connection, int64_t run, int workers,
    absl::FunctionRef<absl::Status(std::span<const StepRecord* const>)> take,
    const StepRange& range = {});

}  // namespace psring

#endif  // PSRING_EXPERIMENTS_STEP_READER_H_
