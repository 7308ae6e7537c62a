#include "experiments/report/exchange_line.h"

#include <algorithm>

#include "common/status_macros.h"
#include "experiments/run_database.h"
#include "experiments/step_reader.h"

namespace psring {
namespace {

double Milliseconds(int64_t nanoseconds) {
  return static_cast<double>(nanoseconds) * 1e-6;
}

}  // namespace

absl::StatusOr<ExchangeLine> ReadExchangeLine(SqliteConnection& database,
                                              const ArmResult& run, int most_ranks) {
  ExchangeLine line = {.arm = run.name,
                       .step = 0,
                       .error_ms = 0,
                       .ranks = run.workers,
                       .backward = {},
                       .buckets = {}};
  ASSIGN_OR_RETURN(SqliteStatement found,
                   database.Prepare("SELECT run FROM runs WHERE name = ? AND seed = ?"));
  RETURN_IF_ERROR(found.Bind({run.name, SeedAsInteger(run.seed)}));
  ASSIGN_OR_RETURN(const bool known, found.Next());
  if (!known) return line;
  const int64_t number = found.Integer(0);
  ASSIGN_OR_RETURN(
      SqliteStatement median,
      database.Prepare(
          "SELECT step, start_ns FROM steps WHERE run = ?1 AND rank = 0 ORDER BY "
          "total_ns "
          "LIMIT 1 OFFSET (SELECT count(*) / 2 FROM steps WHERE run = ?1 AND rank = 0)"));
  RETURN_IF_ERROR(median.Bind({number}));
  ASSIGN_OR_RETURN(const bool any, median.Next());
  if (!any) return line;
  line.step = median.Integer(0);
  const int64_t origin = median.Integer(1);
  ASSIGN_OR_RETURN(const RunFrame frame, ReadRunFrame(database, number));
  line.error_ms = Milliseconds(frame.clocks.error_ns());
  const auto at = [&](int rank, int64_t time_ns) {
    return Milliseconds(frame.clocks.Translate(rank, time_ns, 0) - origin);
  };
  ASSIGN_OR_RETURN(
      SqliteStatement step,
      // When backward begins, as BackwardBegin (experiments/waits.h).
      database.Prepare(
          "SELECT rank, start_ns + recording_ns + data_ns + forward_ns, backward_ns "
          "FROM steps WHERE run = ? AND step = ? AND rank < ? ORDER BY rank"));
  RETURN_IF_ERROR(step.Bind({number, line.step, int64_t{most_ranks}}));
  while (true) {
    ASSIGN_OR_RETURN(const bool more, step.Next());
    if (!more) break;
    const int rank = static_cast<int>(step.Integer(0));
    line.backward.push_back({.rank = rank,
                             .begin = at(rank, step.Integer(1)),
                             .end = at(rank, step.Integer(1) + step.Integer(2))});
  }
  ASSIGN_OR_RETURN(
      SqliteStatement bucket,
      database.Prepare("SELECT rank, bucket, ready_ns, launched_ns, done_ns FROM buckets "
                       "WHERE run = ? AND step = ? AND rank < ? ORDER BY rank, bucket"));
  RETURN_IF_ERROR(bucket.Bind({number, line.step, int64_t{most_ranks}}));
  while (true) {
    ASSIGN_OR_RETURN(const bool more, bucket.Next());
    if (!more) return line;
    const int rank = static_cast<int>(bucket.Integer(0));
    line.buckets.push_back({.rank = rank,
                            .bucket = static_cast<int>(bucket.Integer(1)),
                            .ready = at(rank, bucket.Integer(2)),
                            .launched = at(rank, bucket.Integer(3)),
                            .done = at(rank, bucket.Integer(4))});
  }
}

}  // namespace psring
