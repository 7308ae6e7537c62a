#include "experiments/report/run_results.h"

#include <filesystem>
#include <fstream>
#include <memory>
#include <optional>
#include <system_error>

#include "absl/status/status.h"
#include "absl/strings/str_cat.h"
#include "common/status_macros.h"
#include "experiments/arm_records.h"
#include "experiments/compare_replicas.h"
#include "experiments/compare_wires.h"
#include "experiments/config.h"
#include "experiments/resolve_arms.h"
#include "experiments/run_database.h"
#include "experiments/run_reader.h"
#include "experiments/sqlite.h"
#include "nlohmann/json.hpp"
#include "worker/data_set.h"

namespace psring {
namespace {

namespace fs = std::filesystem;

// How a run ended, as the database has it.
struct Ending {
  int64_t run = 0;
  absl::Status outcome;
  std::optional<int64_t> restored_step;
};

// Nothing where there is no such run.
absl::StatusOr<std::optional<Ending>> ReadEnding(SqliteConnection& database,
                                                 const JobSpec& spec) {
  ASSIGN_OR_RETURN(
      SqliteStatement row,
      database.Prepare(
          "SELECT outcome, restored_step, (SELECT max(step) + 1 FROM steps WHERE "
          "steps.run = runs.run), run FROM runs WHERE name = ? AND seed = ?"));
  RETURN_IF_ERROR(
      row.Bind({spec.arm().name(), SeedAsInteger(spec.experiment().training().seed())}));
  ASSIGN_OR_RETURN(const bool found, row.Next());
  if (!found) return std::nullopt;
  Ending ending;
  if (row.IsNull(0)) {
    ending.outcome = absl::AbortedError(
        absl::StrCat("it has not ended, or psring was killed; recorded are ",
                     row.IsNull(2) ? 0 : row.Integer(2), " of ", spec.steps(), " steps"));
  } else if (row.Text(0) != "ok") {
    ending.outcome = absl::AbortedError(row.Text(0));
  }
  if (!row.IsNull(1)) ending.restored_step = row.Integer(1);
  ending.run = row.Integer(3);
  return ending;
}

// What the run continued from, by its first records: of each worker the first step, of
// the servers the version that was updated first. Which checkpoint it was nobody has
// recorded: the run is its own, and its bits are compared with no other arm's.
absl::Status AddRestored(SqliteConnection& database, int64_t run, int64_t step,
                         JobSpec* spec) {
  Restored& restored = *spec->mutable_restored();
  restored.set_folder(spec->job());
  restored.set_step(step);
  ASSIGN_OR_RETURN(
      SqliteStatement first,
      database.Prepare("SELECT min(step) FROM steps WHERE run = ? AND rank = ?"));
  for (int rank = 0; rank < spec->workers(); ++rank) {
    RETURN_IF_ERROR(first.Bind({run, int64_t{rank}}));
    RETURN_IF_ERROR(first.Next().status());
    // Who was stopped before its first has the place that it would have in lockstep.
    restored.add_next_steps(first.IsNull(0) ? step : first.Integer(0));
  }
  ASSIGN_OR_RETURN(SqliteStatement version,
                   database.Prepare("SELECT min(version) FROM contributions "
                                    "WHERE run = ? AND dropped IS NULL"));
  RETURN_IF_ERROR(version.Bind({run}));
  RETURN_IF_ERROR(version.Next().status());
  restored.set_version(version.IsNull(0) ? step : version.Integer(0));
  return absl::OkStatus();
}

// Whether the comparison has done all its runs, by what it has left when it ended. That a
// gradient was not finite is an end, too.
bool DidAllRuns(const std::string& folder) {
  std::ifstream file(folder + "/summary.json");
  const auto summary = nlohmann::json::parse(file, nullptr, false);
  return summary.is_object() && summary.contains("error") && summary["error"].is_null();
}

absl::StatusOr<std::string> FolderOf(const std::string& run) {
  std::error_code error;
  const std::string folder =
      fs::is_directory(run, error) ? run : fs::path(run).parent_path().string();
  const std::string named = folder.empty() ? "." : folder;
  const bool is_run =
      fs::is_directory(run, error) || fs::path(run).filename() == "run.db";
  for (const char* const file : {"run.db", "config.textproto"}) {
    if (is_run && fs::exists(absl::StrCat(named, "/", file), error)) continue;
    return absl::InvalidArgumentError(absl::StrCat(
        run, " is no run: it has no ", file,
        "; allowed: a folder that psring compare or run has made, or its run.db"));
  }
  return named;
}

}  // namespace

absl::Status ReadEnvironment(RunResults* run) {
  std::ifstream file(run->folder + "/environment.json");
  const auto json = nlohmann::ordered_json::parse(file, nullptr, false);
  if (!json.is_object()) {
    return absl::InvalidArgumentError(
        absl::StrCat(run->folder, "/environment.json is not there, or damaged"));
  }
  for (const auto& [name, value] : json.items()) {
    run->environment.emplace_back(
        name, value.is_string() ? value.get<std::string>() : value.dump());
  }
  return absl::OkStatus();
}

void SetResults(const std::vector<ArmResult>& results, RunResults* run) {
  for (const ArmResult& result : results) {
    (result.error.empty() ? run->ended : run->unfinished).push_back(result);
  }
}

absl::StatusOr<RunResults> ReadRunResults(const std::string& run) {
  RunResults results;
  ASSIGN_OR_RETURN(results.folder, FolderOf(run));
  RETURN_IF_ERROR(ReadEnvironment(&results));
  ASSIGN_OR_RETURN(results.experiment,
                   LoadExperiment(results.folder + "/config.textproto", {}));
  DataSetShape data;
  if (results.experiment.has_data()) {
    ASSIGN_OR_RETURN(
        data, ReadDataSetShape(results.experiment.data().fashion_mnist().directory()));
  }
  ASSIGN_OR_RETURN(const std::vector<JobSpec> arms,
                   ResolveArms(results.experiment, "", data));
  ASSIGN_OR_RETURN(const std::unique_ptr<SqliteConnection> database,
                   SqliteConnection::OpenReadOnly(results.database()));
  std::vector<ArmResult> summaries;
  for (const JobSpec& arm : arms) {
    bool any = false;
    for (JobSpec& spec : RunsOf(arm)) {
      ASSIGN_OR_RETURN(const std::optional<Ending> ending, ReadEnding(*database, spec));
      if (!ending) continue;
      any = true;
      if (ending->restored_step) {
        RETURN_IF_ERROR(
            AddRestored(*database, ending->run, *ending->restored_step, &spec));
      }
      ASSIGN_OR_RETURN(const ArmRecords records,
                       ReadArm(results.database(), arm.arm().name(),
                               spec.experiment().training().seed()));
      summaries.push_back(Summarize(spec, records, ending->outcome));
      results.specs.push_back(std::move(spec));
    }
    if (!any) results.not_run.push_back(arm.arm().name());
  }
  CompareReplicas(results.specs, &summaries);
  CompareWires(results.specs, &summaries);
  SetResults(summaries, &results);
  if (DidAllRuns(results.folder)) {
    results.expectations = CheckExpectations(results.experiment, summaries);
  }
  return results;
}

}  // namespace psring
