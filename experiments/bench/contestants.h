// Who takes part in a benchmark, and which processes that takes. Pure, but for looking
// whether programs are there.
#ifndef PSRING_EXPERIMENTS_BENCH_CONTESTANTS_H_
#define PSRING_EXPERIMENTS_BENCH_CONTESTANTS_H_

#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "experiments/bench/options.h"
#include "experiments/bench/processes.h"
#include "experiments/bench/result.h"

namespace psring {

struct BenchPrograms {
  std::string rank;  // Of psring's own contestants, and the raw one.
  // Of the peers; an empty file, or none, where the build did not find the library.
  std::string gloo;
  std::string open_mpi;
  std::string mpirun = "/usr/bin/mpirun";
};

struct ContestantPlan : ContestantProcesses {
  Contestant contestant;
};

// All that the options name, in the order of the rows: psring's, raw where psring's use
// TCP, the peers. `folder` is the launcher's own; the largest size is `most_bytes`.
//   kInvalidArgument: an option has a value that is not there; the message says which
//   are. kFailedPrecondition, exit code kSkipped: a peer was not built; the message names
//   the
//     packages that it needs.
absl::StatusOr<std::vector<ContestantPlan>> PlanContestants(const BenchOptions& options,
                                                            int64_t most_bytes,
                                                            const BenchPrograms& programs,
                                                            const std::string& folder);

}  // namespace psring

#endif  // PSRING_EXPERIMENTS_BENCH_CONTESTANTS_H_
