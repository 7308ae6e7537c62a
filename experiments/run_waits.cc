#include "experiments/run_waits.h"

#include <span>
#include <vector>

#include "common/status_macros.h"
#include "experiments/step_reader.h"
#include "experiments/waits.h"

namespace psring {

absl::Status WriteWaits(SqliteConnection& connection, int64_t run) {
  ASSIGN_OR_RETURN(const RunFrame frame, ReadRunFrame(connection, run));
  ASSIGN_OR_RETURN(
      SqliteStatement insert,
      connection.Prepare("INSERT INTO waits VALUES (?, ?, ?, ?, ?, ?, ?, ?)"));
  return ForEachStep(
      connection, run, frame.workers,
      [&](std::span<const StepRecord* const> steps) -> absl::Status {
        for (int rank = 0; rank < frame.workers; ++rank) {
          if (steps[rank] == nullptr) continue;
          const std::vector<BucketWait> buckets =
              WaitsOf(rank, steps, frame.lockstep, frame.clocks);
          const Causes causes =
              CutByCause(ExposedSpans(*steps[rank], frame.bucket_bytes), buckets);
          RETURN_IF_ERROR(insert.Execute(
              {run, int64_t{rank}, steps[rank]->step(), causes.not_ready_ns,
               causes.peer_late_ns, causes.on_wire_ns, causes.working_ns,
               causes.waited_for ? SqliteValue(int64_t{*causes.waited_for})
                                 : SqliteValue(nullptr)}));
        }
        return absl::OkStatus();
      });
}

}  // namespace psring
