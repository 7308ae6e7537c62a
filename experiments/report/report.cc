#include "experiments/report/report.h"

#include <algorithm>
#include <iostream>
#include <memory>
#include <optional>
#include <tuple>
#include <utility>
#include <vector>

#include "CLI/Config.hpp"
#include "CLI/Formatter.hpp"
#include "absl/status/statusor.h"
#include "absl/strings/str_cat.h"
#include "absl/time/time.h"
#include "common/status_macros.h"
#include "experiments/report/page.h"
#include "experiments/report/page_file.h"
#include "experiments/run_database.h"
#include "experiments/sqlite.h"

namespace psring {
namespace {

constexpr size_t kMostPictures = 4;
constexpr size_t kMostExchanges = 2;
constexpr int kMostRanks = 4;  // Of a step that is shown bucket by bucket.
constexpr size_t kMostEvents = 50;

// The arms that stand for the comparison: those of the contest, void ones among them;
// where there is none, all that there are.
std::vector<const ArmRuns*> Telling(const PageData& data) {
  std::vector<const ArmRuns*> arms = data.contest.arms;
  arms.insert(arms.end(), data.contest.left_out.begin(), data.contest.left_out.end());
  if (arms.empty()) {
    for (const ArmRuns& arm : data.all) arms.push_back(&arm);
  }
  return arms;
}

const JobSpec* SpecOf(const RunResults& run, const ArmResult& arm) {
  const auto spec =
      std::find_if(run.specs.begin(), run.specs.end(), [&](const JobSpec& one) {
        return one.arm().name() == arm.name &&
               one.experiment().training().seed() == arm.seed;
      });
  return spec == run.specs.end() ? nullptr : &*spec;
}

// One for each way to lay out the processes: servers, those that have workers on their
// hosts, and rings.
std::vector<TrafficPicture> Pictures(const PageData& data) {
  std::vector<TrafficPicture> pictures;
  std::vector<std::tuple<bool, int, int, bool>> drawn;
  for (const ArmRuns* const arm : Telling(data)) {
    const ArmResult& first = arm->first();
    const JobSpec* const spec = SpecOf(data.run, first);
    if (spec == nullptr) continue;
    std::optional<TrafficPicture> picture = PictureOf(*spec, first);
    const bool shares_hosts =
        std::any_of(first.endpoints.begin(), first.endpoints.end(),
                    [](const auto& one) { return one.local_payload_out > 0; });
    const std::tuple layout(picture && picture->ring, first.workers, first.servers,
                            shares_hosts);
    if (!picture || pictures.size() == kMostPictures ||
        std::find(drawn.begin(), drawn.end(), layout) != drawn.end()) {
      continue;
    }
    drawn.push_back(layout);
    pictures.push_back(*std::move(picture));
  }
  // The hottest first: it is what the others are held against.
  std::stable_sort(pictures.begin(), pictures.end(), [](const auto& a, const auto& b) {
    return a.links[a.hottest].bytes() > b.links[b.hottest].bytes();
  });
  return pictures;
}

// The best of each architecture; of one alone the two best.
absl::StatusOr<std::vector<ExchangeLine>> Exchanges(SqliteConnection& database,
                                                    const PageData& data) {
  std::vector<const ArmRuns*> arms = Telling(data);
  if (!data.contest.arms.empty()) {
    if (const ArmRuns* const other = data.contest.best_other()) {
      arms = {data.contest.arms.front(), other};
    }
  }
  std::vector<ExchangeLine> lines;
  for (const ArmRuns* const arm : arms) {
    if (lines.size() == kMostExchanges) break;
    ASSIGN_OR_RETURN(ExchangeLine line,
                     ReadExchangeLine(database, arm->first(), kMostRanks));
    lines.push_back(std::move(line));
  }
  return lines;
}

absl::StatusOr<std::vector<std::string>> Events(SqliteConnection& database) {
  ASSIGN_OR_RETURN(
      SqliteStatement row,
      database.Prepare("SELECT name, severity, process, text FROM events JOIN runs "
                       "USING (run) WHERE severity <> 'info' ORDER BY events.rowid"));
  std::vector<std::string> events;
  int64_t left_out = 0;
  while (true) {
    ASSIGN_OR_RETURN(const bool more, row.Next());
    if (!more) break;
    if (events.size() == kMostEvents) {
      ++left_out;
      continue;
    }
    events.push_back(absl::StrCat(row.Text(0), ", ", row.Text(1), ": ",
                                  row.IsNull(2) ? "" : row.Text(2) + ": ", row.Text(3)));
  }
  if (left_out > 0) {
    events.push_back(absl::StrCat("and ", left_out, " more, in the database's `events`"));
  }
  return events;
}

absl::StatusOr<std::string> Started(SqliteConnection& database) {
  ASSIGN_OR_RETURN(SqliteStatement row,
                   database.Prepare("SELECT min(started_unix_ns) FROM runs"));
  RETURN_IF_ERROR(row.Next().status());
  if (row.IsNull(0)) return "";
  return absl::FormatTime("%Y-%m-%d %H:%M UTC", absl::FromUnixNanos(row.Integer(0)),
                          absl::UTCTimeZone());
}

// Fills in the page, whose contest points into it.
absl::Status Gather(RunResults run, PageData* data) {
  ASSIGN_OR_RETURN(const std::unique_ptr<SqliteConnection> database,
                   SqliteConnection::OpenReadOnly(run.database()));
  data->run = std::move(run);
  std::vector<ArmResult> all = data->run.ended;
  all.insert(all.end(), data->run.unfinished.begin(), data->run.unfinished.end());
  data->ended = GroupByArm(data->run.ended);
  data->all = GroupByArm(all);
  data->contest =
      ContestOf(data->ended, data->run.experiment.training().target_accuracy());
  data->verdict = VerdictOf(data->run, data->ended, data->contest);
  data->pictures = Pictures(*data);
  data->accuracies = AccuracyCurves(data->all);
  ASSIGN_OR_RETURN(data->started, Started(*database));
  ASSIGN_OR_RETURN(data->losses, ReadLossCurves(*database, data->run));
  ASSIGN_OR_RETURN(data->exchanges, Exchanges(*database, *data));
  ASSIGN_OR_RETURN(data->events, Events(*database));
  return absl::OkStatus();
}

absl::Status CheckThatChartsCanBeDrawn() {
  return CheckChartLibrary("report", "the table of compare says the same in text");
}

struct ReportOptions {
  std::string run;
  std::string out;
};

absl::Status Report(const ReportOptions& options) {
  RETURN_IF_ERROR(CheckThatChartsCanBeDrawn());
  ASSIGN_OR_RETURN(RunResults run, ReadRunResults(options.run));
  const std::string path =
      options.out.empty() ? run.folder + "/report.html" : options.out;
  RETURN_IF_ERROR(WriteReport(std::move(run), path));
  std::cout << path << std::endl;
  return absl::OkStatus();
}

}  // namespace

absl::Status WriteReport(RunResults run, const std::string& path) {
  RETURN_IF_ERROR(CheckThatChartsCanBeDrawn());
  PageData data;
  RETURN_IF_ERROR(Gather(std::move(run), &data));
  return WritePage(path, PageHtml(data, CarriedAssets()));
}

void AddReportCommand(CLI::App* app, std::function<absl::Status()>* chosen) {
  const auto options = std::make_shared<ReportOptions>();
  CLI::App* report =
      app->add_subcommand("report",
                          "Writes the page of a run: one file, to be opened "
                          "in a browser");
  report->add_option("run", options->run, "Run folder, or its run.db")->required();
  report->add_option("-o,--out", options->out,
                     "File (default: report.html in the run folder)");
  report->callback([=] { *chosen = [=] { return Report(*options); }; });
}

}  // namespace psring
