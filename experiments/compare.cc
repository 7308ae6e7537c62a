#include "experiments/compare.h"

#include <unistd.h>

#include <algorithm>
#include <iostream>
#include <iterator>
#include <map>
#include <memory>
#include <optional>
#include <utility>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "absl/strings/str_join.h"
#include "absl/time/clock.h"
#include "common/errors.h"
#include "common/status_macros.h"
#include "experiments/arm_mode.h"
#include "experiments/arm_result.h"
#include "experiments/arm_runner.h"
#include "experiments/arm_runs.h"
#include "experiments/child_processes.h"
#include "experiments/compare_replicas.h"
#include "experiments/compare_wires.h"
#include "experiments/compute_config.h"
#include "experiments/config.h"
#include "experiments/database_writer.h"
#include "experiments/device_check.h"
#include "experiments/environment.h"
#include "experiments/expectations.h"
#include "experiments/hosts/host_network.h"
#include "experiments/hosts/host_plan.h"
#include "experiments/hosts/host_settings.h"
#include "experiments/hosts/hot_spot_verdict.h"
#include "experiments/hosts/link_tables.h"
#include "experiments/hosts/network_namespace.h"
#include "experiments/inject_config.h"
#include "experiments/live/live_display.h"
#include "experiments/live/terminal.h"
#include "experiments/optimizer_config.h"
#include "experiments/plan_table.h"
#include "experiments/probe/ground_probe.h"
#include "experiments/probe/probe_report.h"
#include "experiments/probe/probed_link.h"
#include "experiments/report/report.h"
#include "experiments/report/run_results.h"
#include "experiments/resolve_arms.h"
#include "experiments/restore.h"
#include "experiments/result_table.h"
#include "experiments/ring_config.h"
#include "experiments/run_database.h"
#include "experiments/run_folder.h"
#include "experiments/run_reader.h"
#include "experiments/run_watchers.h"
#include "experiments/step_config.h"
#include "experiments/summary.h"
#include "experiments/tensorboard/tensorboard_writer.h"
#include "worker/data_set.h"

namespace psring {
namespace {

// What decides the meaning of the numbers that follow.
std::string Announcement(const Experiment& experiment, const std::vector<JobSpec>& specs,
                         int64_t train_count, const std::string& folder) {
  const Training& training = experiment.training();
  std::string text =
      absl::StrFormat("%s: global batch %d, %s, seed %d; results in %s\n",
                      experiment.name(), training.global_batch(),
                      DescribeOptimizer(training.optimizer()), training.seed(), folder);
  if (training.seeds() > 1) {
    absl::StrAppendFormat(&text, "each arm runs %d times, with the seeds %d to %d\n",
                          training.seeds(), training.seed(),
                          training.seed() + training.seeds() - 1);
  }
  absl::StrAppend(&text, DescribeArms(specs));
  if (experiment.compute().kind_case() != Compute::kReal) {
    absl::StrAppend(&text, "compute: ", DescribeCompute(experiment.compute()), "\n");
  }
  for (const SlowWorker& slow : experiment.inject().slow_worker()) {
    absl::StrAppendFormat(&text, "injected: worker %d computes %.3g times as long\n",
                          slow.rank(), slow.factor());
  }
  for (const StallWorker& stall : experiment.inject().stall_worker()) {
    absl::StrAppendFormat(&text, "injected: worker %d gets stuck in step %d\n",
                          stall.rank(), stall.step());
  }
  for (const FlipBit& flip : experiment.inject().flip_bit()) {
    absl::StrAppendFormat(&text, "injected: worker %d: %s\n", flip.rank(),
                          DescribeFlip(flip));
  }
  // Arms, by what is said of them.
  std::map<std::string, std::vector<std::string>> reduced, uneven;
  for (const JobSpec& spec : specs) {
    reduced[DescribeReduction(spec)].push_back(spec.arm().name());
    uneven[DescribeUneven(spec, train_count)].push_back(spec.arm().name());
  }
  uneven.erase("");
  for (const auto& [how, arms] : reduced) {
    absl::StrAppend(&text, "reduce (", absl::StrJoin(arms, ", "), "): ", how, "\n");
  }
  for (const auto& [how, arms] : uneven) {
    absl::StrAppend(&text, "uneven (", absl::StrJoin(arms, ", "), "): ", how, "\n");
  }
  std::map<std::string, std::vector<std::string>> on_hosts;  // Arms, by their settings.
  for (const JobSpec& spec : specs) {
    const Hosts* const hosts = HostsOf(spec);
    if (hosts == nullptr) continue;
    const char* const who = hosts->colocated_servers() ? "worker" : "process";
    on_hosts[absl::StrCat("each ", who, " on an emulated one of its own; ",
                          DescribeHosts(*hosts))]
        .push_back(spec.arm().name());
  }
  for (const auto& [settings, arms] : on_hosts) {
    absl::StrAppend(&text, "hosts (", absl::StrJoin(arms, ", "), "): ", settings, "\n");
  }
  int64_t most = 0;
  for (const JobSpec& spec : specs) {
    most = std::max<int64_t>(most, spec.workers() + spec.servers());
  }
  const int64_t cores = sysconf(_SC_NPROCESSORS_ONLN);
  if (most > cores) {
    absl::StrAppendFormat(&text,
                          "note: up to %d processes share %d cores; times show how they "
                          "share, not what as many machines would do\n",
                          most, cores);
  }
  return text;
}

// One run of an arm, with one seed.
struct PlannedRun {
  JobSpec spec;
  std::string title;       // For people: "async", "async, seed 3".
  std::string log_folder;  // Under logs/: "async", "async/seed-3".
};

std::vector<PlannedRun> PlanRuns(const std::vector<JobSpec>& arms) {
  std::vector<PlannedRun> planned;
  for (const JobSpec& arm : arms) {
    const std::vector<JobSpec> runs = RunsOf(arm);
    for (const JobSpec& run : runs) {
      const std::string& name = arm.arm().name();
      const uint64_t seed = run.experiment().training().seed();
      const bool several = runs.size() > 1;
      planned.push_back(
          {.spec = run,
           .title = several ? absl::StrCat(name, ", seed ", seed) : name,
           .log_folder = several ? absl::StrCat(name, "/seed-", seed) : name});
    }
  }
  return planned;
}

// A comparison may have been stopped before some of its arms had a checkpoint: they begin
// at their beginning. That none has one is an error.
absl::Status RestoreRuns(const CompareOptions& options, std::vector<PlannedRun>* runs) {
  absl::Status none;
  std::vector<std::string> lines;
  bool any = false;
  for (PlannedRun& run : *runs) {
    std::string warning;
    const absl::Status restored =
        Annotate(Restore(options.restore, run.log_folder, options.restore_previous,
                         &run.spec, &warning),
                 absl::StrCat("arm ", run.title));
    if (absl::IsNotFound(restored)) {
      none.Update(restored);
      lines.push_back(absl::StrCat(run.title, ": begins at its beginning: there is no ",
                                   "checkpoint of it in ", options.restore));
      continue;
    }
    RETURN_IF_ERROR(restored);
    any = true;
    if (!warning.empty()) lines.push_back(absl::StrCat("warning: ", warning));
    lines.push_back(
        absl::StrCat(run.title, ": continues from ", run.spec.restored().folder()));
  }
  if (!any) return none;
  for (const std::string& line : lines) std::cerr << line << std::endl;
  return absl::OkStatus();
}

std::string OneLine(const std::string& title, const ArmResult& result) {
  const std::string start = absl::StrCat(title, ": ", ToString(result.convergence));
  if (!result.error.empty()) return absl::StrCat(start, ": ", result.error);
  const std::string loss =
      result.learns ? absl::StrFormat(" final loss %.4f,", result.final_loss) : "";
  return absl::StrFormat("%s, %d steps,%s %.0f samples/s%s", start, result.steps, loss,
                         result.samples_per_second,
                         result.is_void() ? "; void: " + result.validity->cause : "");
}

absl::Status SignalThatCame(ChildProcesses* children) {
  const ChildProcesses::Event event = children->Wait(absl::ZeroDuration());
  return event.signal ? SignalError(*event.signal) : absl::OkStatus();
}

// Does them in order until one fails. That a gradient is not finite is a result, and the
// others go on; `diverged` is the first such error. `children` block the signals of
// threads that come later, and this makes some.
absl::Status DoRuns(const std::vector<PlannedRun>& runs, const CompareOptions& options,
                    const RunFolder& folder, std::unique_ptr<RunDatabase> database,
                    const std::optional<MetricsAddresses>& metrics,
                    ChildProcesses* children, std::vector<ArmResult>* results,
                    absl::Status* diverged) {
  const std::string database_path = database->path();
  DatabaseWriter writer(std::move(database));
  const bool on_hosts = std::any_of(
      runs.begin(), runs.end(), [](const PlannedRun& run) { return OnHosts(run.spec); });
  ASSIGN_OR_RETURN(const std::unique_ptr<RunWatchers> watchers,
                   RunWatchers::Start(options.tensorboard, metrics, on_hosts));
  LiveDisplay display(&std::cerr, StderrTerminal);
  for (const PlannedRun& planned : runs) {
    const JobSpec& spec = planned.spec;
    ArmRunOptions run;
    run.title = planned.title;
    run.position = static_cast<int>(&planned - runs.data()) + 1;
    run.positions = static_cast<int>(runs.size());
    run.metrics = metrics;
    run.watch = &watchers->live();
    run.watchers = watchers->all();
    run.worker_binary = BuiltProgram("worker/main/worker");
    run.server_binary = BuiltProgram("server/parameter_server");
    run.external = options.external;
    if (options.external) {
      run.listen = options.listen;
      run.advertise = options.advertise.empty()
                          ? options.listen.substr(0, options.listen.rfind(':'))
                          : options.advertise;
    }
    run.rendezvous_timeout = absl::Seconds(options.rendezvous_timeout_seconds);
    ASSIGN_OR_RETURN(run.log_folder, folder.MakeLogFolder(planned.log_folder));
    std::unique_ptr<HostNetwork> hosts;  // New ones for each run: nothing is left behind.
    if (OnHosts(spec)) {
      ASSIGN_OR_RETURN(hosts, HostNetwork::Create(PlanHosts(spec)));
      run.hosts = hosts.get();
      run.listen = absl::StrCat(HostPlan::kCoordinatorAddress, ":0");
      run.advertise = HostPlan::kCoordinatorAddress;
    }
    absl::Status stopped;
    const absl::Status ended = RunArm(spec, run, &writer, children, &display, &stopped);
    const absl::Status outcome = Annotate(ended, absl::StrCat("arm ", planned.title));
    if (!ended.ok() && ExitCodeOf(ended) != ExitCode::kNotANumber) return outcome;
    diverged->Update(outcome);
    ASSIGN_OR_RETURN(
        const ArmRecords records,
        ReadArm(database_path, spec.arm().name(), spec.experiment().training().seed()));
    results->push_back(Summarize(spec, records, ended));
    std::cerr << OneLine(planned.title, results->back()) << std::endl;
    RETURN_IF_ERROR(Annotate(stopped, absl::StrCat("arm ", planned.title)));
    // One that came after the arm's last look: its result is kept, and nothing more
    // starts.
    RETURN_IF_ERROR(SignalThatCame(children));
  }
  return absl::OkStatus();
}

// Probes the ground of the arms that have hosts, and keeps what has come of it.
absl::Status Probe(const std::vector<JobSpec>& specs, const RunFolder& folder,
                   RunDatabase* database, std::vector<ProbedLink>* probed) {
  std::vector<JobSpec> on_hosts;
  std::copy_if(specs.begin(), specs.end(), std::back_inserter(on_hosts), OnHosts);
  if (on_hosts.empty()) return absl::OkStatus();
  ASSIGN_OR_RETURN(const ProbeReport report, ProbeGround(on_hosts, &std::cerr));
  *probed = report.links;
  RETURN_IF_ERROR(folder.Write("probe.json", ReportJson(report)));
  return database->AddProbedLinks(*probed);
}

// The page beside the results. It is never what a comparison fails of: all that has been
// measured is in the folder, and `psring report` makes the page from it.
absl::Status WritePage(const RunFolder& folder, RunResults run) {
  const std::string path = absl::StrCat(folder.path(), "/report.html");
  RETURN_IF_ERROR(WriteReport(std::move(run), path));
  std::cerr << "report: " << path << std::endl;
  return absl::OkStatus();
}

absl::Status CheckCertificates(const std::vector<ArmResult>& results) {
  for (const ArmResult& result : results) {
    if (const Certificate* const failed = FailedCertificate(result)) {
      return CheckFailedError(
          absl::StrCat("arm ", result.name, ", seed ", result.seed, ": ", failed->why));
    }
  }
  return absl::OkStatus();
}

}  // namespace

absl::Status Compare(const CompareOptions& options) {
  ASSIGN_OR_RETURN(const Experiment experiment,
                   LoadExperiment(options.config_path, options.overrides));
  if (options.print_config) {
    std::cout << PrintExperiment(experiment);
    return absl::OkStatus();
  }
  if (options.external) {
    for (const Arm& arm : experiment.arms()) {
      if (arm.name() == options.arm) RETURN_IF_ERROR(CheckForSeveralHosts(arm));
    }
  }
  ASSIGN_OR_RETURN(const DataSetShape data, CheckData(experiment));
  ASSIGN_OR_RETURN(std::vector<JobSpec> specs,
                   ResolveArms(experiment, options.arm, data));
  const bool on_hosts = std::any_of(specs.begin(), specs.end(), OnHosts);
  if (on_hosts && options.external) {
    return absl::InvalidArgumentError(
        "--external: the arm has cluster.hosts, on which psring starts the processes "
        "itself; allowed: one of the two");
  }
  if (options.dry_run) {
    std::vector<std::string> plans;
    for (const JobSpec& spec : specs) plans.push_back(PlanTable(spec, data));
    std::cout << absl::StrJoin(plans, "\n");
    return absl::OkStatus();
  }
  RETURN_IF_ERROR(CheckSizeToRun(specs.front()));
  RETURN_IF_ERROR(CheckDevice(specs, options.external));
  // A process left over from another run must not pass for one of this.
  const std::string suffix =
      absl::StrCat("-", getpid(), "-", absl::ToUnixMillis(absl::Now()));
  for (JobSpec& spec : specs) {
    spec.set_job(options.job.empty() ? absl::StrCat(spec.job(), suffix) : options.job);
  }

  std::vector<PlannedRun> runs = PlanRuns(specs);
  if (!options.restore.empty()) RETURN_IF_ERROR(RestoreRuns(options, &runs));

  std::optional<MetricsAddresses> metrics;
  if (!options.metrics.empty()) {
    ASSIGN_OR_RETURN(metrics, CheckMetrics(options.metrics, specs, options.external));
  }
  if (!options.tensorboard.empty()) {
    RETURN_IF_ERROR(TensorBoardWriter::CheckFolder(options.tensorboard));
  }

  // Before there is another thread, which would stay outside.
  if (on_hosts) RETURN_IF_ERROR(EnterPrivateNetwork());
  ASSIGN_OR_RETURN(const RunFolder folder,
                   RunFolder::Create(options.out, experiment.name()));
  RETURN_IF_ERROR(folder.Write("config.textproto", PrintExperiment(experiment)));
  const Environment environment = DescribeMachine();
  RETURN_IF_ERROR(folder.Write("environment.json", EnvironmentJson(environment)));
  ASSIGN_OR_RETURN(std::unique_ptr<RunDatabase> database,
                   RunDatabase::Create(absl::StrCat(folder.path(), "/run.db")));
  std::cerr << Announcement(experiment, specs, data.train_count, folder.path())
            << std::flush;

  if (experiment.has_checkpoint()) {
    ASSIGN_OR_RETURN(const std::string checkpoints, folder.MakeCheckpointFolder());
    for (PlannedRun& run : runs) {
      run.spec.set_checkpoint_folder(absl::StrCat(checkpoints, "/", run.log_folder));
    }
  }
  std::vector<JobSpec> run_specs;
  for (const PlannedRun& run : runs) run_specs.push_back(run.spec);
  std::vector<ArmResult> results;
  absl::Status diverged;
  std::vector<ProbedLink> probed;
  // Before there are processes, which would want the processor.
  absl::Status outcome = Probe(specs, folder, database.get(), &probed);
  // Signals wait until what was measured is in the folder and on the screen.
  std::optional<ChildProcesses> children(std::in_place);
  if (outcome.ok()) {
    outcome = DoRuns(runs, options, folder, std::move(database), metrics, &*children,
                     &results, &diverged);
  }
  CompareReplicas(run_specs, &results);
  CompareWires(run_specs, &results);
  std::vector<ExpectationResult> expectations;
  if (outcome.ok()) expectations = CheckExpectations(experiment, results);
  const absl::Status written = folder.Write(
      "summary.json", SummaryJson(experiment, probed, results, expectations, outcome));
  if (!results.empty()) std::cout << ResultTable(experiment, results);
  if (!expectations.empty()) std::cout << "\n" << ExpectationLines(expectations);
  // What a comparison on hosts is made for comes last: it is then on the screen.
  const std::vector<ArmRuns> arms = GroupByArm(results);
  for (const std::string& part : {LinkAuditTable(arms), HotSpotTable(arms),
                                  outcome.ok() ? HotSpotVerdict(arms) : ""}) {
    if (!part.empty()) std::cout << "\n" << part;
  }
  std::cout << std::flush;
  const absl::Status stopped = SignalThatCame(&*children);
  children.reset();
  // Whoever cannot wait has a page by `psring report`.
  if (!stopped.ok()) return outcome.ok() ? stopped : outcome;
  if (!results.empty()) {
    RunResults run;
    run.folder = folder.path();
    run.experiment = experiment;
    run.specs = run_specs;
    run.expectations = expectations;
    run.environment = environment;
    SetResults(results, &run);
    for (const Arm& arm : experiment.arms()) {  // `psring run` has one of them.
      const auto is_of_arm = [&](const JobSpec& spec) {
        return spec.arm().name() == arm.name();
      };
      if (std::none_of(run_specs.begin(), run_specs.end(), is_of_arm)) {
        run.not_run.push_back(arm.name());
      }
    }
    // The runs that an error ended have no results here, but records.
    if (!outcome.ok()) {
      absl::StatusOr<RunResults> read = ReadRunResults(folder.path());
      if (read.ok()) run = *std::move(read);
    }
    const absl::Status page = WritePage(folder, std::move(run));
    if (!page.ok()) std::cerr << page.message() << std::endl;
  }
  RETURN_IF_ERROR(outcome);
  RETURN_IF_ERROR(written);
  RETURN_IF_ERROR(CheckCertificates(results));
  RETURN_IF_ERROR(StatusOf(expectations));
  return diverged;
}

}  // namespace psring
