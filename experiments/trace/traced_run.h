// One run of an arm as a trace shows it: what took part, on one clock, and step by step
// what was recorded.
#ifndef PSRING_EXPERIMENTS_TRACE_TRACED_RUN_H_
#define PSRING_EXPERIMENTS_TRACE_TRACED_RUN_H_

#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "absl/functional/function_ref.h"
#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "common/ring_order.h"
#include "experiments/sqlite.h"
#include "experiments/step_reader.h"
#include "proto/record.pb.h"

namespace psring {

struct TracedBucket {
  int64_t bytes = 0;
  std::string algorithm;             // That sums it on a ring; empty: none does.
  std::vector<std::string> tensors;  // In forward order; empty: not known.
};

struct TracedRun {
  int64_t run = 0;
  std::string title;  // "ring"; where the arm has several seeds, "ring, seed 3".
  std::string arm;
  uint64_t seed = 0;
  std::string mode;
  int workers = 0;
  int servers = 0;
  // "ok" or the error that it ended with; none: it has not ended, or was cut off.
  std::optional<std::string> outcome;
  // The steps that some worker has recorded; none: there are no steps.
  std::optional<StepRange> recorded;
  // Its clocks are those of workers and servers.
  RunFrame frame;
  std::vector<TracedBucket> buckets;  // By index.
  std::vector<int> bucket_of_slot;    // Empty: not known, or no servers.
  RingOrder order{0};                 // Of the workers.
  // Contributions are recorded with the number of a round, which is not the worker's own
  // number of the step where a round may close without it.
  bool by_rounds = false;
  int64_t micro_batches = 1;  // Passes, forward and backward, of a step.
  // Why what only the plan says (tensors, slots, the ring's order) is not known; empty:
  // it is.
  std::string unknown;

  // What the coordinator's clock shows when that of the worker or server shows this.
  int64_t OfWorker(int rank, int64_t time_ns) const;
  int64_t OfServer(int server, int64_t time_ns) const;
};

// A gradient of a worker for a slot, and what became of it.
struct TracedContribution {
  int server = 0;
  int slot = 0;
  int rank = 0;
  int64_t step = 0;   // The worker's own count.
  int64_t round = 0;  // As recorded: where there are no rounds, the same.
  int64_t version_read = 0;
  int64_t version = 0;
  std::string dropped;  // "late", "stale"; empty: it was applied.
  int64_t clock_lag = 0;
  int64_t time_ns = 0;  // Applied or dropped, on the server's clock.
};

// The runs in the file of this arm and this seed, or of any where they are not given, in
// their order. NotFound: there is none, and which there are.
absl::StatusOr<std::vector<TracedRun>> ReadTracedRuns(SqliteConnection& connection,
                                                      const std::string& arm,
                                                      std::optional<uint64_t> seed);

// Calls `take` with each step number in `range` that something is recorded of, in order:
// the records of all ranks, null where a rank has none, and the contributions that were
// made from that step, in order of time as recorded. Keeps no more than one step.
absl::Status ForEachTracedStep(
    SqliteConnection& connection, const TracedRun& run, const StepRange& range,
    absl::FunctionRef<absl::Status(std::span<const StepRecord* const>,
                                   std::span<const TracedContribution>)>
        take);

}  // namespace psring

#endif  // PSRING_EXPERIMENTS_TRACE_TRACED_RUN_H_
