#include "experiments/figures/step_time_line.h"

#include <algorithm>
#include <span>
#include <utility>

#include "absl/strings/str_cat.h"
#include "common/status_macros.h"
#include "experiments/step_reader.h"
#include "experiments/waits.h"

namespace psring {
namespace {

constexpr int64_t kSlot = 0;
constexpr int64_t kSteps = 3;  // Of the slowest worker.

// On the coordinator's clock.
struct Stretch {
  int64_t begin_ns = 0;
  int64_t end_ns = 0;

  bool Has(int64_t time_ns) const { return begin_ns <= time_ns && time_ns <= end_ns; }
  double Milliseconds(int64_t time_ns) const {
    return static_cast<double>(std::clamp(time_ns, begin_ns, end_ns) - begin_ns) * 1e-6;
  }
};

absl::StatusOr<Stretch> MiddleOf(SqliteConnection& connection, const TracedRun& run) {
  ASSIGN_OR_RETURN(
      SqliteStatement slowest,
      connection.Prepare("SELECT rank, count(*) FROM steps WHERE run = ? GROUP BY rank "
                         "ORDER BY avg(total_ns) DESC, rank LIMIT 1"));
  RETURN_IF_ERROR(slowest.Bind({run.run}));
  RETURN_IF_ERROR(slowest.Next().status());
  const int64_t rank = slowest.Integer(0);
  const int64_t before = std::max<int64_t>(0, (slowest.Integer(1) - kSteps) / 2);
  ASSIGN_OR_RETURN(
      SqliteStatement step,
      connection.Prepare("SELECT start_ns, start_ns + total_ns FROM steps WHERE run = ? "
                         "AND rank = ? ORDER BY step LIMIT ? OFFSET ?"));
  RETURN_IF_ERROR(step.Bind({run.run, rank, kSteps, before}));
  std::optional<Stretch> stretch;
  while (true) {
    ASSIGN_OR_RETURN(const bool more, step.Next());
    if (!more) return stretch.value_or(Stretch());
    if (!stretch) {
      stretch = {.begin_ns = run.OfWorker(static_cast<int>(rank), step.Integer(0))};
    }
    stretch->end_ns = run.OfWorker(static_cast<int>(rank), step.Integer(1));
  }
}

// The numbers of the steps that some worker was in then.
absl::StatusOr<StepRange> StepsIn(SqliteConnection& connection, const TracedRun& run,
                                  const Stretch& stretch) {
  ASSIGN_OR_RETURN(
      SqliteStatement row,
      connection.Prepare("SELECT step, start_ns, start_ns + total_ns FROM steps "
                         "WHERE run = ? AND rank = ? ORDER BY step"));
  std::optional<StepRange> steps;
  for (int rank = 0; rank < run.workers; ++rank) {
    RETURN_IF_ERROR(row.Bind({run.run, int64_t{rank}}));
    while (true) {
      ASSIGN_OR_RETURN(const bool more, row.Next());
      if (!more || run.OfWorker(rank, row.Integer(1)) > stretch.end_ns) break;
      if (run.OfWorker(rank, row.Integer(2)) < stretch.begin_ns) continue;
      const int64_t step = row.Integer(0);
      if (!steps) steps = {.first = step, .last = step};
      steps->first = std::min(steps->first, step);
      steps->last = std::max(steps->last, step);
    }
  }
  return steps.value_or(*run.recorded);
}

// When the worker launched the bucket that the slot is of, on the coordinator's clock.
std::optional<int64_t> LaunchOf(const TracedRun& run, const StepRecord* step) {
  if (step == nullptr || run.bucket_of_slot.empty()) return std::nullopt;
  const int bucket = run.bucket_of_slot[kSlot];
  if (bucket >= step->buckets_size()) return std::nullopt;
  return run.OfWorker(static_cast<int>(step->rank()),
                      step->buckets(bucket).launched_ns());
}

void AddBar(const TracedRun& run, const Stretch& stretch, const StepRecord& step,
            StepTimeLine* line) {
  const int rank = static_cast<int>(step.rank());
  const int64_t begin_ns = run.OfWorker(rank, step.start_ns());
  const int64_t end_ns = run.OfWorker(rank, step.start_ns() + step.total_ns());
  if (end_ns <= stretch.begin_ns || begin_ns >= stretch.end_ns) return;
  line->bars.push_back(
      {.rank = rank,
       .step = step.step(),
       .begin = stretch.Milliseconds(begin_ns),
       .computed = stretch.Milliseconds(run.OfWorker(rank, FinishBegin(step))),
       .end = stretch.Milliseconds(end_ns)});
}

void AddApplied(const TracedRun& run, const Stretch& stretch,
                std::span<const StepRecord* const> steps, const TracedContribution& made,
                StepTimeLine* line) {
  if (made.slot != kSlot || !made.dropped.empty()) return;
  const int64_t applied_ns = run.OfServer(made.server, made.time_ns);
  if (!stretch.Has(applied_ns)) return;
  AppliedGradient applied = {.rank = made.rank,
                             .step = made.step,
                             .launched = std::nullopt,
                             .applied = stretch.Milliseconds(applied_ns),
                             .staleness = made.version - made.version_read};
  const std::optional<int64_t> launched_ns = LaunchOf(run, steps[made.rank]);
  // Clocks agree only so well: an arrow does not go back in time.
  if (launched_ns && stretch.Has(*launched_ns)) {
    applied.launched = std::min(stretch.Milliseconds(*launched_ns), applied.applied);
  }
  line->server = made.server;
  line->applied.push_back(applied);
}

absl::StatusOr<int64_t> Stalest(SqliteConnection& connection, int64_t run) {
  ASSIGN_OR_RETURN(SqliteStatement row,
                   connection.Prepare("SELECT coalesce(max(version - version_read), 0) "
                                      "FROM contributions WHERE run = ? AND slot = ? AND "
                                      "dropped IS NULL"));
  RETURN_IF_ERROR(row.Bind({run, kSlot}));
  RETURN_IF_ERROR(row.Next().status());
  return row.Integer(0);
}

}  // namespace

int64_t StepTimeLine::stale() const {
  return std::count_if(applied.begin(), applied.end(),
                       [](const AppliedGradient& one) { return one.staleness > 0; });
}

int64_t StepTimeLine::most_stale() const {
  int64_t most = 0;
  for (const AppliedGradient& one : applied) most = std::max(most, one.staleness);
  return most;
}

absl::StatusOr<StepTimeLine> ReadStepTimeLine(SqliteConnection& connection,
                                              const TracedRun& run) {
  ASSIGN_OR_RETURN(const Stretch stretch, MiddleOf(connection, run));
  ASSIGN_OR_RETURN(const StepRange steps, StepsIn(connection, run, stretch));
  StepTimeLine line = {
      .title = run.title,
      .mode = run.mode,
      .lockstep = run.frame.lockstep,
      .workers = run.workers,
      .server = 0,
      .length_ms = stretch.Milliseconds(stretch.end_ns),
      .error_ms = static_cast<double>(run.frame.clocks.error_ns()) * 1e-6,
      .bars = {},
      .applied = {},
      .unknown = run.unknown};
  RETURN_IF_ERROR(
      ForEachTracedStep(connection, run, steps,
                        [&](std::span<const StepRecord* const> records,
                            std::span<const TracedContribution> contributions) {
                          for (const StepRecord* const record : records) {
                            if (record != nullptr) AddBar(run, stretch, *record, &line);
                          }
                          for (const TracedContribution& made : contributions) {
                            AddApplied(run, stretch, records, made, &line);
                          }
                          return absl::OkStatus();
                        }));
  std::stable_sort(line.applied.begin(), line.applied.end(),
                   [](const AppliedGradient& a, const AppliedGradient& b) {
                     return a.applied < b.applied;
                   });
  return line;
}

absl::StatusOr<TellingRuns> FindTellingRuns(SqliteConnection& connection) {
  ASSIGN_OR_RETURN(std::vector<TracedRun> runs,
                   ReadTracedRuns(connection, "", std::nullopt));
  TellingRuns telling;
  int64_t stalest = 0;
  for (TracedRun& run : runs) {
    if (run.servers == 0 || !run.recorded) continue;
    if (run.frame.lockstep) {
      if (!telling.in_step) telling.in_step = std::move(run);
      continue;
    }
    ASSIGN_OR_RETURN(const int64_t staleness, Stalest(connection, run.run));
    if (telling.free && staleness <= stalest) continue;
    stalest = staleness;
    telling.free = std::move(run);
  }
  if (telling.in_step || telling.free) return telling;
  return absl::NotFoundError(
      absl::StrCat(connection.path(),
                   ": no arm with servers has recorded a step; allowed: a run of one, as "
                   "of experiments/configs/consistency.textproto"));
}

}  // namespace psring
