#include "experiments/figures/figures.h"

#include <filesystem>
#include <iostream>
#include <memory>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "CLI/Config.hpp"
#include "CLI/Formatter.hpp"
#include "absl/status/statusor.h"
#include "absl/strings/str_cat.h"
#include "common/status_macros.h"
#include "experiments/explain/collective_story.h"
#include "experiments/explain/story.h"
#include "experiments/figures/chunk_grid.h"
#include "experiments/figures/figure_model.h"
#include "experiments/figures/figures_page.h"
#include "experiments/figures/memory_shares.h"
#include "experiments/figures/step_time_line.h"
#include "experiments/figures/traffic_growth.h"
#include "experiments/report/page_file.h"
#include "experiments/run_file.h"
#include "experiments/sqlite.h"

namespace psring {
namespace {

struct FiguresOptions {
  std::vector<std::string> runs;
  std::string out = "figures.html";
  std::string model = FigureModels().front();
  int ranks = 4;
};

// "consistency: " for runs/consistency and for runs/consistency/run.db.
std::string RunTitle(const SqliteConnection& connection) {
  const auto folder = std::filesystem::absolute(connection.path()).parent_path();
  return absl::StrCat(folder.filename().string(), ": ");
}

absl::Status AddTimeLines(const std::string& path, bool titled,
                          std::vector<StepTimeLine>* lines) {
  ASSIGN_OR_RETURN(const std::unique_ptr<SqliteConnection> connection, OpenRun(path));
  ASSIGN_OR_RETURN(const TellingRuns telling, FindTellingRuns(*connection));
  for (const std::optional<TracedRun>* const run : {&telling.in_step, &telling.free}) {
    if (!*run) continue;
    ASSIGN_OR_RETURN(StepTimeLine line, ReadStepTimeLine(*connection, **run));
    if (titled) line.title.insert(0, RunTitle(*connection));
    lines->push_back(std::move(line));
  }
  return absl::OkStatus();
}

absl::Status WriteFigures(const FiguresOptions& options) {
  RETURN_IF_ERROR(CheckChartLibrary(
      "figures", "psring explain and --dry-run say much of it in text"));
  FiguresData data;
  for (const std::string& run : options.runs) {
    RETURN_IF_ERROR(AddTimeLines(run, options.runs.size() > 1, &data.lines));
  }
  ASSIGN_OR_RETURN(data.growth, GrowthOf(options.model));
  data.ranks = options.ranks;
  ASSIGN_OR_RETURN(const Story story,
                   TellAllReduce("ring", options.ranks, /*count=*/options.ranks));
  data.grids = GridsOf(story);
  data.budgets = RingBudgets(options.model, kSharingRanks);
  RETURN_IF_ERROR(WritePage(options.out, FiguresHtml(data, CarriedAssets())));
  std::cout << options.out << std::endl;
  return absl::OkStatus();
}

}  // namespace

void AddFiguresCommand(CLI::App* app, std::function<absl::Status()>* chosen) {
  const auto options = std::make_shared<FiguresOptions>();
  CLI::App* figures = app->add_subcommand(
      "figures",
      "Writes the figures that explain the subject: one page, to be opened in "
      "a browser");
  figures->add_option("run", options->runs,
                      "Run folders, or their run.db, for the time lines of steps");
  figures->add_option("-o,--out", options->out, "File")->capture_default_str();
  figures
      ->add_option("--model", options->model,
                   "Whose parameters are exchanged and kept in memory")
      ->capture_default_str()
      ->check(CLI::IsMember(FigureModels()));
  figures
      ->add_option("--ranks", options->ranks, "Ranks of the ring that is shown in steps")
      ->capture_default_str()
      ->check(CLI::Range(2, kMostStoryRanks));
  figures->callback([=] { *chosen = [=] { return WriteFigures(*options); }; });
}

}  // namespace psring
