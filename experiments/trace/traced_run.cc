#include "experiments/trace/traced_run.h"

#include <algorithm>
#include <limits>
#include <map>
#include <set>
#include <utility>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "common/job_plan.h"
#include "common/layout.h"
#include "common/slot_plan.h"
#include "common/status_macros.h"
#include "experiments/config_check.h"
#include "experiments/config_text.h"
#include "experiments/resolve_arms.h"
#include "proto/coordinator.pb.h"
#include "proto/experiment.pb.h"
#include "worker/data_set.h"

namespace psring {
namespace {

// AlignedClocks knows workers by rank. Nobody has the coordinator's number, so that its
// clock is the coordinator's.
constexpr int kCoordinator = std::numeric_limits<int>::min();
int ClockOfServer(int server) { return -1 - server; }

// The job that the run's configuration stands for.
absl::StatusOr<JobSpec> SpecOf(const std::string& configuration) {
  Experiment experiment;
  FieldOrigins origins("its configuration");
  RETURN_IF_ERROR(ReadText(configuration, &experiment, &origins));
  RETURN_IF_ERROR(CheckExperiment(experiment, origins));
  if (experiment.buckets().cap_bytes() == 0 ||
      experiment.buckets().first_cap_bytes() == 0) {
    return absl::InvalidArgumentError(
        "its configuration does not say how large buckets "
        "are");
  }
  DataSetShape data;
  if (experiment.has_data()) {
    ASSIGN_OR_RETURN(data,
                     ReadDataSetShape(experiment.data().fashion_mnist().directory()));
  }
  ASSIGN_OR_RETURN(std::vector<JobSpec> specs, ResolveArms(experiment, "", data));
  return std::move(specs.front());
}

// What only the plan says, from the configuration. The plan must have the buckets that
// were recorded: data of other sizes, for one, would make others.
absl::Status AddPlan(const std::string& configuration, TracedRun* run) {
  ASSIGN_OR_RETURN(const JobSpec spec, SpecOf(configuration));
  const JobPlan plan = PlanJob(spec);
  const auto same = [](const TracedBucket& recorded, const Bucket& planned) {
    return recorded.bytes == planned.range.count * int64_t{sizeof(float)};
  };
  if (!std::equal(run->buckets.begin(), run->buckets.end(), plan.buckets.buckets.begin(),
                  plan.buckets.buckets.end(), same) ||
      spec.workers() != run->workers || spec.servers() != run->servers) {
    return absl::InvalidArgumentError(
        "its configuration and the data here give other "
        "buckets or processes than were recorded");
  }
  for (size_t i = 0; i < run->buckets.size(); ++i) {
    const Bucket& bucket = plan.buckets.buckets[i];
    for (int tensor = 0; tensor < bucket.tensor_count; ++tensor) {
      run->buckets[i].tensors.push_back(
          plan.layout.tensors()[bucket.first_tensor + tensor].name);
    }
  }
  for (const Slot& slot : plan.slots.slots) run->bucket_of_slot.push_back(slot.bucket);
  run->order = RingOrderOf(spec);
  run->by_rounds = spec.arm().parameter_server().has_backup();
  run->micro_batches = std::max<int64_t>(1, spec.experiment().training().micro_batches());
  return absl::OkStatus();
}

absl::Status ReadBuckets(SqliteConnection& connection, TracedRun* run) {
  ASSIGN_OR_RETURN(SqliteStatement row,
                   connection.Prepare("SELECT bytes, algorithm FROM bucket_plan "
                                      "WHERE run = ? ORDER BY bucket"));
  RETURN_IF_ERROR(row.Bind({run->run}));
  while (true) {
    ASSIGN_OR_RETURN(const bool more, row.Next());
    if (!more) return absl::OkStatus();
    run->buckets.push_back(
        {.bytes = row.Integer(0), .algorithm = row.Text(1), .tensors = {}});
  }
}

absl::Status ReadServerClocks(SqliteConnection& connection, TracedRun* run) {
  ASSIGN_OR_RETURN(
      SqliteStatement row,
      connection.Prepare("SELECT CAST(substr(process, 8) AS INTEGER) AS server, time_ns, "
                         "offset_ns, error_ns FROM clocks "
                         "WHERE run = ? AND process LIKE 'server %' "
                         "ORDER BY server, time_ns"));
  RETURN_IF_ERROR(row.Bind({run->run}));
  while (true) {
    ASSIGN_OR_RETURN(const bool more, row.Next());
    if (!more) return absl::OkStatus();
    ClockRecord record;
    record.set_time_ns(row.Integer(1));
    record.set_offset_ns(row.Integer(2));
    record.set_error_ns(row.Integer(3));
    run->frame.clocks.Add(ClockOfServer(static_cast<int>(row.Integer(0))), record);
  }
}

absl::Status ReadRecorded(SqliteConnection& connection, TracedRun* run) {
  for (int rank = 0; rank < run->workers; ++rank) {
    ASSIGN_OR_RETURN(SqliteStatement row,
                     connection.Prepare("SELECT min(step), max(step) FROM steps "
                                        "WHERE run = ? AND rank = ?"));
    RETURN_IF_ERROR(row.Bind({run->run, int64_t{rank}}));
    RETURN_IF_ERROR(row.Next().status());
    if (row.IsNull(0)) continue;
    StepRange steps{.first = row.Integer(0), .last = row.Integer(1)};
    if (run->recorded) {
      steps.first = std::min(steps.first, run->recorded->first);
      steps.last = std::max(steps.last, run->recorded->last);
    }
    run->recorded = steps;
  }
  return absl::OkStatus();
}

// All of the file, with what stands in `runs` alone; and their configurations.
absl::StatusOr<std::vector<TracedRun>> ReadRows(
    SqliteConnection& connection, std::vector<std::string>* configurations) {
  ASSIGN_OR_RETURN(SqliteStatement row,
                   connection.Prepare("SELECT run, name, seed, mode, workers, servers, "
                                      "outcome, configuration FROM runs ORDER BY run"));
  std::vector<TracedRun> runs;
  while (true) {
    ASSIGN_OR_RETURN(const bool more, row.Next());
    if (!more) return runs;
    TracedRun& run = runs.emplace_back();
    run.run = row.Integer(0);
    run.arm = row.Text(1);
    run.seed = static_cast<uint64_t>(row.Integer(2));
    run.mode = row.Text(3);
    run.workers = static_cast<int>(row.Integer(4));
    run.servers = static_cast<int>(row.Integer(5));
    if (!row.IsNull(6)) run.outcome = row.Text(6);
    configurations->push_back(row.Text(7));
  }
}

// What is recorded of contributions in a range, in order of the workers' own steps.
class ContributionCursor {
 public:
  static absl::StatusOr<ContributionCursor> Open(SqliteConnection& connection,
                                                 const TracedRun& run,
                                                 const StepRange& range) {
    // A worker makes one contribution to each slot in each of its steps, and a slot's are
    // recorded in their order: its n-th is of its n-th step.
    const char* const own =
        run.by_rounds
            ? "(SELECT min(step) FROM steps WHERE steps.run = contributions.run "
              "AND steps.rank = contributions.rank) + row_number() OVER "
              "(PARTITION BY server, slot, rank ORDER BY rowid) - 1"
            : "step";
    ASSIGN_OR_RETURN(
        SqliteStatement rows,
        connection.Prepare(absl::StrCat(
            "SELECT * FROM (SELECT server, slot, rank, ", own,
            " AS own, step, "
            "version_read, version, dropped, clock_lag, time_ns FROM contributions "
            "WHERE run = ?) WHERE own BETWEEN ? AND ? ORDER BY own, time_ns, slot, "
            "rank")));
    RETURN_IF_ERROR(rows.Bind({run.run, range.first, range.last}));
    ContributionCursor cursor(std::move(rows));
    ASSIGN_OR_RETURN(cursor.more_, cursor.rows_.Next());
    return cursor;
  }

  // Of the next contribution; none: there are no more.
  std::optional<int64_t> step() const {
    return more_ ? std::optional(rows_.Integer(3)) : std::nullopt;
  }

  // All of the next contribution's step.
  absl::StatusOr<std::vector<TracedContribution>> Take() {
    std::vector<TracedContribution> taken;
    while (more_ && (taken.empty() || *step() == taken.back().step)) {
      taken.push_back({.server = static_cast<int>(rows_.Integer(0)),
                       .slot = static_cast<int>(rows_.Integer(1)),
                       .rank = static_cast<int>(rows_.Integer(2)),
                       .step = rows_.Integer(3),
                       .round = rows_.Integer(4),
                       .version_read = rows_.Integer(5),
                       .version = rows_.Integer(6),
                       .dropped = rows_.Text(7),
                       .clock_lag = rows_.Integer(8),
                       .time_ns = rows_.Integer(9)});
      ASSIGN_OR_RETURN(more_, rows_.Next());
    }
    return taken;
  }

 private:
  explicit ContributionCursor(SqliteStatement rows) : rows_(std::move(rows)) {}

  SqliteStatement rows_;
  bool more_ = false;  // The statement is at a row that is not taken yet.
};

}  // namespace

int64_t TracedRun::OfWorker(int rank, int64_t time_ns) const {
  return frame.clocks.Translate(rank, time_ns, kCoordinator);
}

int64_t TracedRun::OfServer(int server, int64_t time_ns) const {
  return frame.clocks.Translate(ClockOfServer(server), time_ns, kCoordinator);
}

absl::StatusOr<std::vector<TracedRun>> ReadTracedRuns(SqliteConnection& connection,
                                                      const std::string& arm,
                                                      std::optional<uint64_t> seed) {
  std::vector<std::string> configurations;
  ASSIGN_OR_RETURN(std::vector<TracedRun> all, ReadRows(connection, &configurations));
  std::map<std::string, int> seeds_of;  // By arm.
  for (const TracedRun& run : all) ++seeds_of[run.arm];
  std::vector<TracedRun> chosen;
  std::vector<std::string> titles;
  for (size_t i = 0; i < all.size(); ++i) {
    TracedRun& run = all[i];
    run.title =
        seeds_of[run.arm] > 1 ? absl::StrCat(run.arm, ", seed ", run.seed) : run.arm;
    titles.push_back(absl::StrCat(run.arm, " with seed ", run.seed));
    if ((!arm.empty() && run.arm != arm) || (seed && run.seed != *seed)) continue;
    RETURN_IF_ERROR(ReadBuckets(connection, &run));
    ASSIGN_OR_RETURN(run.frame, ReadRunFrame(connection, run.run));
    RETURN_IF_ERROR(ReadServerClocks(connection, &run));
    RETURN_IF_ERROR(ReadRecorded(connection, &run));
    run.order = RingOrder(run.workers);
    run.unknown = std::string(AddPlan(configurations[i], &run).message());
    chosen.push_back(std::move(run));
  }
  if (!chosen.empty()) return chosen;
  if (titles.empty()) {
    return absl::NotFoundError(
        absl::StrCat(connection.path(), ": no arm has begun in this run"));
  }
  return absl::NotFoundError(absl::StrCat(
      connection.path(), " has no run", arm.empty() ? "" : absl::StrCat(" of arm ", arm),
      seed ? absl::StrCat(" with seed ", *seed) : "",
      "; there are: ", absl::StrJoin(titles, ", ")));
}

absl::Status ForEachTracedStep(
    SqliteConnection& connection, const TracedRun& run, const StepRange& range,
    absl::FunctionRef<absl::Status(std::span<const StepRecord* const>,
                                   std::span<const TracedContribution>)>
        take) {
  ASSIGN_OR_RETURN(ContributionCursor contributions,
                   ContributionCursor::Open(connection, run, range));
  const std::vector<const StepRecord*> none(run.workers, nullptr);
  // Those of steps of which the workers' records are not there: up to `until`.
  const auto take_orphans = [&](std::optional<int64_t> until) -> absl::Status {
    while (contributions.step() && (!until || *contributions.step() < *until)) {
      ASSIGN_OR_RETURN(const std::vector<TracedContribution> taken, contributions.Take());
      RETURN_IF_ERROR(take(none, taken));
    }
    return absl::OkStatus();
  };
  RETURN_IF_ERROR(ForEachStep(
      connection, run.run, run.workers,
      [&](std::span<const StepRecord* const> steps) -> absl::Status {
        const StepRecord* const some =
            *std::find_if(steps.begin(), steps.end(),
                          [](const StepRecord* step) { return step != nullptr; });
        RETURN_IF_ERROR(take_orphans(some->step()));
        std::vector<TracedContribution> taken;
        if (contributions.step() == some->step()) {
          ASSIGN_OR_RETURN(taken, contributions.Take());
        }
        return take(steps, taken);
      },
      range));
  return take_orphans(std::nullopt);
}

}  // namespace psring
