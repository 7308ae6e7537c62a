#include "experiments/step_reader.h"

#include <algorithm>
#include <optional>
#include <utility>

#include "common/status_macros.h"

namespace psring {
namespace {

// One rank's steps, one after the other.
class StepCursor {
 public:
  static absl::StatusOr<StepCursor> Open(SqliteConnection& connection, int64_t run,
                                         int rank, const StepRange& range) {
    // Both tables lie in this order: nothing is sorted.
    ASSIGN_OR_RETURN(
        SqliteStatement rows,
        connection.Prepare(
            "SELECT steps.step, start_ns, total_ns, data_ns, forward_ns, backward_ns, "
            "exposed_ns, optimizer_ns, recording_ns, parked_ns, released_by, bucket, "
            "ready_ns, launched_ns, done_ns, working_ns "
            "FROM steps LEFT JOIN buckets USING (run, rank, step) "
            "WHERE run = ? AND rank = ? AND steps.step BETWEEN ? AND ? "
            "ORDER BY steps.step, bucket"));
    RETURN_IF_ERROR(rows.Bind({run, int64_t{rank}, range.first, range.last}));
    StepCursor cursor(std::move(rows), rank);
    ASSIGN_OR_RETURN(cursor.more_, cursor.rows_.Next());
    RETURN_IF_ERROR(cursor.Advance());
    return cursor;
  }

  // The present step, if there is one.
  const StepRecord* step() const { return there_ ? &step_ : nullptr; }

  absl::Status Advance() {
    there_ = more_;
    if (!more_) return absl::OkStatus();
    step_.Clear();
    step_.set_rank(rank_);
    step_.set_step(rows_.Integer(0));
    step_.set_start_ns(rows_.Integer(1));
    step_.set_total_ns(rows_.Integer(2));
    step_.set_data_ns(rows_.Integer(3));
    step_.set_forward_ns(rows_.Integer(4));
    step_.set_backward_ns(rows_.Integer(5));
    step_.set_exposed_ns(rows_.Integer(6));
    step_.set_optimizer_ns(rows_.Integer(7));
    step_.set_recording_ns(rows_.Integer(8));
    step_.set_peer_late_ns(rows_.Integer(9));
    if (!rows_.IsNull(10)) step_.set_waited_for(static_cast<int>(rows_.Integer(10)));
    while (more_ && rows_.Integer(0) == step_.step()) {
      if (!rows_.IsNull(11)) {
        BucketTimes& times = *step_.add_buckets();
        times.set_ready_ns(rows_.Integer(12));
        times.set_launched_ns(rows_.Integer(13));
        times.set_done_ns(rows_.Integer(14));
        times.set_working_ns(rows_.Integer(15));
      }
      ASSIGN_OR_RETURN(more_, rows_.Next());
    }
    return absl::OkStatus();
  }

 private:
  StepCursor(SqliteStatement rows, int rank) : rows_(std::move(rows)), rank_(rank) {}

  SqliteStatement rows_;
  int rank_;
  bool more_ = false;   // The statement is at a row that is not taken yet.
  bool there_ = false;  // step_ is one.
  StepRecord step_;
};

}  // namespace

absl::StatusOr<RunFrame> ReadRunFrame(SqliteConnection& connection, int64_t run) {
  RunFrame frame;
  ASSIGN_OR_RETURN(
      SqliteStatement runs,
      connection.Prepare("SELECT workers, lockstep FROM runs WHERE run = ?"));
  RETURN_IF_ERROR(runs.Bind({run}));
  RETURN_IF_ERROR(runs.Next().status());
  frame.workers = static_cast<int>(runs.Integer(0));
  frame.lockstep = runs.Integer(1) != 0;
  ASSIGN_OR_RETURN(SqliteStatement plan,
                   connection.Prepare("SELECT bytes FROM bucket_plan WHERE run = ? "
                                      "ORDER BY bucket"));
  RETURN_IF_ERROR(plan.Bind({run}));
  while (true) {
    ASSIGN_OR_RETURN(const bool more, plan.Next());
    if (!more) break;
    frame.bucket_bytes.push_back(plan.Integer(0));
  }
  ASSIGN_OR_RETURN(
      SqliteStatement clocks,
      connection.Prepare("SELECT CAST(substr(process, 8) AS INTEGER) AS rank, time_ns, "
                         "offset_ns, error_ns FROM clocks "
                         "WHERE run = ? AND process LIKE 'worker %' "
                         "ORDER BY rank, time_ns"));
  RETURN_IF_ERROR(clocks.Bind({run}));
  while (true) {
    ASSIGN_OR_RETURN(const bool more, clocks.Next());
    if (!more) return frame;
    ClockRecord record;
    record.set_time_ns(clocks.Integer(1));
    record.set_offset_ns(clocks.Integer(2));
    record.set_error_ns(clocks.Integer(3));
    frame.clocks.Add(static_cast<int>(clocks.Integer(0)), record);
  }
}

absl::Status ForEachStep(
    SqliteConnection& connection, int64_t run, int workers,
    absl::FunctionRef<absl::Status(std::span<const StepRecord* const>)> take,
    const StepRange& range) {
  std::vector<StepCursor> cursors;
  for (int rank = 0; rank < workers; ++rank) {
    ASSIGN_OR_RETURN(StepCursor cursor, StepCursor::Open(connection, run, rank, range));
    cursors.push_back(std::move(cursor));
  }
  while (true) {
    std::optional<int64_t> next;
    for (const StepCursor& cursor : cursors) {
      if (cursor.step() == nullptr) continue;
      if (!next || cursor.step()->step() < *next) next = cursor.step()->step();
    }
    if (!next) return absl::OkStatus();
    std::vector<const StepRecord*> steps;
    for (const StepCursor& cursor : cursors) {
      const StepRecord* const step = cursor.step();
      steps.push_back(step != nullptr && step->step() == *next ? step : nullptr);
    }
    RETURN_IF_ERROR(take(steps));
    for (int rank = 0; rank < workers; ++rank) {
      if (steps[rank] != nullptr) RETURN_IF_ERROR(cursors[rank].Advance());
    }
  }
}

}  // namespace psring
