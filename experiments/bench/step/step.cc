#include "experiments/bench/step/step.h"

#include <unistd.h>

#include <filesystem>
#include <iostream>
#include <memory>
#include <optional>
#include <utility>
#include <vector>

#include "CLI/Config.hpp"
#include "CLI/Formatter.hpp"
#include "absl/strings/str_cat.h"
#include "absl/time/clock.h"
#include "common/errors.h"
#include "common/status_macros.h"
#include "experiments/arm_result.h"
#include "experiments/arm_runner.h"
#include "experiments/bench/files.h"
#include "experiments/bench/report.h"
#include "experiments/bench/step/contestants.h"
#include "experiments/bench/step/options.h"
#include "experiments/bench/step/pixels.h"
#include "experiments/bench/step/pytorch.h"
#include "experiments/bench/step/report.h"
#include "experiments/bench/step/result.h"
#include "experiments/certificate.h"
#include "experiments/child_processes.h"
#include "experiments/config.h"
#include "experiments/database_writer.h"
#include "experiments/environment.h"
#include "experiments/live/live_display.h"
#include "experiments/live/terminal.h"
#include "experiments/resolve_arms.h"
#include "experiments/run_database.h"
#include "experiments/run_reader.h"

namespace psring {
namespace {

// The jobs of one of psring's contestants, by round; none for others. The configuration
// takes the way that a user's takes.
absl::StatusOr<std::vector<JobSpec>> JobsOf(const StepBenchOptions& options,
                                            const StepSettings& settings,
                                            const StepContestant& contestant,
                                            const std::string& folder) {
  const std::string path = absl::StrCat(folder, "/", contestant.name(), ".textproto");
  RETURN_IF_ERROR(WriteFile(
      path, PrintExperiment(StepExperiment(options, settings, contestant, folder))));
  ASSIGN_OR_RETURN(const Experiment experiment, LoadExperiment(path, {}));
  ASSIGN_OR_RETURN(const DataSetShape data, CheckData(experiment));
  ASSIGN_OR_RETURN(std::vector<JobSpec> arms, ResolveArms(experiment, "", data));
  // A process left over from another run must not pass for one of this.
  arms[0].set_job(
      absl::StrCat(arms[0].job(), "-", getpid(), "-", absl::ToUnixMillis(absl::Now())));
  return RunsOf(arms[0]);
}

absl::Status CheckCertificates(const ArmResult& result) {
  const Certificate* const failed = FailedCertificate(result);
  if (failed == nullptr) return absl::OkStatus();
  return CheckFailedError(
      absl::StrCat(result.name, ", round ", result.seed, ": ", failed->why));
}

// Measures the contestants in rounds: each round has every contestant, one right after
// the other, in processes of its own. What disturbs the machine for longer than a moment
// so disturbs all of them alike.
class StepBench {
 public:
  StepBench(const StepBenchOptions& options, const StepSettings& settings,
            std::string folder)
      : options_(options),
        settings_(settings),
        folder_(std::move(folder)),
        contestants_(StepContestants(options, settings)),
        rounds_(contestants_.size()),
        display_(&std::cerr, StderrTerminal) {}

  // Returns the versions of peers.
  absl::StatusOr<Environment> Start() {
    Environment versions;
    if (!options_.against.empty()) {
      ASSIGN_OR_RETURN(
          Pytorch found,
          Pytorch::Find(
              {.rank = BuiltProgram("experiments/peers/pytorch_rank"), .folder = folder_},
              &children_));
      versions.emplace_back("pytorch", found.version());
      pytorch_.emplace(std::move(found));
    }
    RETURN_IF_ERROR(WritePixels(folder_, settings_.widths[0], settings_.samples));
    for (const StepContestant& contestant : contestants_) {
      std::vector<JobSpec>& jobs = jobs_.emplace_back();
      if (contestant.peer != "psring") continue;
      ASSIGN_OR_RETURN(jobs, JobsOf(options_, settings_, contestant, folder_));
    }
    ASSIGN_OR_RETURN(std::unique_ptr<RunDatabase> database,
                     RunDatabase::Create(DatabasePath()));
    writer_ = std::make_unique<DatabaseWriter>(std::move(database));
    return versions;
  }

  absl::Status Run() {
    const absl::Time start = absl::Now();
    for (int round = 0; round < options_.rounds; ++round) {
      for (size_t c = 0; c < contestants_.size(); ++c) {
        ASSIGN_OR_RETURN(const std::vector<RankSteps> ranks,
                         contestants_[c].peer == "psring"
                             ? RunJob(jobs_[c][round])
                             : pytorch_->Run(options_, contestants_[c], folder_, round));
        ASSIGN_OR_RETURN(StepRound result,
                         RoundOf(ranks, options_.warm_up, options_.iterations));
        rounds_[c].push_back(std::move(result));
      }
      std::cerr << "psring: round " << round + 1 << " of " << options_.rounds << ", "
                << absl::ToInt64Seconds(absl::Now() - start) << " s" << std::endl;
    }
    return absl::OkStatus();
  }

  std::vector<StepRow> Rows() const {
    return MakeStepRows(options_.batch, contestants_, rounds_);
  }

 private:
  std::string DatabasePath() const { return absl::StrCat(folder_, "/run.db"); }

  // Real processes, as `psring run` would start them.
  absl::StatusOr<std::vector<RankSteps>> RunJob(const JobSpec& job) {
    ArmRunOptions run;
    run.worker_binary = BuiltProgram("worker/main/worker");
    run.server_binary = BuiltProgram("server/parameter_server");
    const uint64_t seed = job.experiment().training().seed();
    run.title = absl::StrCat(job.arm().name(), ", round ", seed);
    run.log_folder = absl::StrCat(folder_, "/", job.arm().name(), "-round-", seed);
    std::error_code error;
    std::filesystem::create_directory(run.log_folder, error);
    if (error) {
      return absl::InternalError(
          absl::StrCat("cannot make ", run.log_folder, ": ", error.message()));
    }
    absl::Status stopped;
    const absl::Status ended =
        RunArm(job, run, writer_.get(), &children_, &display_, &stopped);
    RETURN_IF_ERROR(Annotate(ended, run.title));
    RETURN_IF_ERROR(Annotate(stopped, run.title));
    ASSIGN_OR_RETURN(const ArmRecords records,
                     ReadArm(DatabasePath(), job.arm().name(), seed));
    RETURN_IF_ERROR(CheckCertificates(Summarize(job, records, ended)));
    return RankStepsOf(records);
  }

  const StepBenchOptions& options_;
  const StepSettings& settings_;
  const std::string folder_;
  const std::vector<StepContestant> contestants_;
  std::vector<std::vector<JobSpec>> jobs_;      // By contestant and round.
  std::vector<std::vector<StepRound>> rounds_;  // The same.
  ChildProcesses children_;  // Before there is another thread: it blocks signals.
  LiveDisplay display_;
  std::optional<Pytorch> pytorch_;
  std::unique_ptr<DatabaseWriter> writer_;
};

absl::Status RunStepBench(const StepBenchOptions& options, const std::string& command) {
  ASSIGN_OR_RETURN(const StepSettings settings, CheckStepOptions(options));
  RETURN_IF_ERROR(CheckWritable("--json", options.json_path));
  ASSIGN_OR_RETURN(BenchFolder folder, BenchFolder::Make());
  BenchContext context{.command = command,
                       .environment = DescribeHost(),
                       .load_before = LoadAverage(),
                       .load_after = "",
                       .ranks = options.ranks};
  StepBench bench(options, settings, folder.path());
  ASSIGN_OR_RETURN(const Environment versions, bench.Start());
  context.environment.emplace_back("compute threads per rank", "1");
  for (const Environment& more : {versions, StepWork(options, settings)}) {
    context.environment.insert(context.environment.end(), more.begin(), more.end());
  }
  std::cout << BenchHeader(context) << std::endl;
  RETURN_IF_ERROR(folder.End(bench.Run()));
  context.load_after = LoadAverage();
  const std::vector<StepRow> rows = bench.Rows();
  std::cout << StepTable(settings, rows) << StepFooter(context) << std::flush;
  return WriteFile(options.json_path, StepJson(context, options, settings, rows));
}

}  // namespace

void AddStepCommand(CLI::App* bench, std::string command,
                    std::function<absl::Status()>* chosen) {
  CLI::App* step = bench->add_subcommand(
      "step", "Times training steps of processes of this machine, one thread each");
  const auto options = std::make_shared<StepBenchOptions>();
  const auto add = [&](const char* flag, auto& value, const char* text) {
    return step->add_option(flag, value, text)->capture_default_str();
  };
  add("--model", options->model,
      "Widths of the layers, from the pixels of an image to the 10 classes");
  add("--batch", options->batch, "Samples of a rank in a step")
      ->check(CLI::Range(1, 65536));
  add("--ranks", options->ranks, "Workers of ring and servers");
  add("--servers", options->servers, "Parameter servers of servers");
  add("--arm", options->arms, "ring, servers; local: one rank alone")->delimiter(',');
  add("--cap", options->caps, "Sizes of buckets; sizes may end in K, M or G")
      ->delimiter(',');
  add("--transport", options->transports, "Of a ring: tcp, shared_memory, grpc")
      ->delimiter(',');
  add("-n,--iters", options->iterations, "Timed steps in a round")
      ->check(CLI::Range(1, 10'000));
  add("-w,--warmup_iters", options->warm_up, "Steps before them")
      ->check(CLI::Range(0, 10'000));
  add("--rounds", options->rounds, "How often all are measured")
      ->check(CLI::Range(1, 1000));
  add("--against", options->against, "Other libraries: pytorch")->delimiter(',');
  add("--json", options->json_path, "Also writes the rows to this file");
  step->callback([=, command = std::move(command)] {
    *chosen = [=] { return RunStepBench(*options, command); };
  });
}

}  // namespace psring
