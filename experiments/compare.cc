#include "experiments/compare.h"

#include <unistd.h>

#include <algorithm>
#include <iostream>
#include <map>
#include <memory>
#include <utility>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "absl/strings/str_join.h"
#include "absl/time/clock.h"
#include "common/errors.h"
#include "common/job_plan.h"
#include "common/status_macros.h"
#include "experiments/arm_mode.h"
#include "experiments/arm_result.h"
#include "experiments/arm_runner.h"
#include "experiments/child_processes.h"
#include "experiments/compare_replicas.h"
#include "experiments/config.h"
#include "experiments/config_check.h"
#include "experiments/database_writer.h"
#include "experiments/environment.h"
#include "experiments/hosts/host_network.h"
#include "experiments/hosts/host_plan.h"
#include "experiments/hosts/host_settings.h"
#include "experiments/hosts/network_namespace.h"
#include "experiments/optimizer_config.h"
#include "experiments/plan_table.h"
#include "experiments/progress.h"
#include "experiments/result_table.h"
#include "experiments/ring_config.h"
#include "experiments/run_database.h"
#include "experiments/run_folder.h"
#include "experiments/run_reader.h"
#include "experiments/summary.h"
#include "worker/data_set.h"
#include "worker/mlp.h"

namespace psring {
namespace {

absl::StatusOr<std::vector<JobSpec>> ResolveArms(const Experiment& experiment,
                                                 const std::string& only,
                                                 const DataSetShape& data) {
  std::vector<int64_t> widths = {data.features};
  for (const int64_t width : experiment.model().mlp().hidden()) widths.push_back(width);
  widths.push_back(data.classes);
  const ParameterLayout layout = MlpLayout(widths);

  std::vector<JobSpec> specs;
  std::vector<std::string> names;
  for (const Arm& arm : experiment.arms()) {
    names.push_back(arm.name());
    if (!only.empty() && arm.name() != only) continue;
    ASSIGN_OR_RETURN(JobSpec spec, ResolveArm(experiment, arm, data.train_count));
    DescribeLayout(layout, &spec);
    specs.push_back(std::move(spec));
  }
  if (specs.empty()) {
    return absl::InvalidArgumentError(absl::StrCat(
        "there is no arm \"", only, "\"; allowed: ", absl::StrJoin(names, ", ")));
  }
  return specs;
}

// What decides the meaning of the numbers that follow.
std::string Announcement(const Experiment& experiment, const std::vector<JobSpec>& specs,
                         const std::string& folder) {
  const Training& training = experiment.training();
  std::string text = absl::StrFormat(
      "%s: global batch %d, gradients reduced to their mean, %s, seed %d; results in "
      "%s\n",
      experiment.name(), training.global_batch(), DescribeOptimizer(training.optimizer()),
      training.seed(), folder);
  if (training.seeds() > 1) {
    absl::StrAppendFormat(&text, "each arm runs %d times, with the seeds %d to %d\n",
                          training.seeds(), training.seed(),
                          training.seed() + training.seeds() - 1);
  }
  absl::StrAppend(&text, DescribeArms(specs));
  for (const SlowWorker& slow : experiment.inject().slow_worker()) {
    absl::StrAppendFormat(&text, "injected: worker %d computes %.3g times as long\n",
                          slow.rank(), slow.factor());
  }
  for (const StallWorker& stall : experiment.inject().stall_worker()) {
    absl::StrAppendFormat(&text, "injected: worker %d gets stuck in step %d\n",
                          stall.rank(), stall.step());
  }
  std::map<std::string, std::vector<std::string>> on_hosts;  // Arms, by their settings.
  for (const JobSpec& spec : specs) {
    if (!OnHosts(spec)) continue;
    const Hosts hosts = ResolveCluster(spec.experiment(), spec.arm()).hosts();
    on_hosts[DescribeHosts(hosts)].push_back(spec.arm().name());
  }
  for (const auto& [settings, arms] : on_hosts) {
    absl::StrAppend(&text, "hosts (", absl::StrJoin(arms, ", "),
                    "): each process on an emulated one of its own; ", settings, "\n");
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

std::string OneLine(const std::string& title, const ArmResult& result) {
  const std::string start = absl::StrCat(title, ": ", ToString(result.convergence));
  if (!result.error.empty()) return absl::StrCat(start, ": ", result.error);
  return absl::StrFormat("%s, %d steps, final loss %.4f, %.0f samples/s", start,
                         result.steps, result.final_loss, result.samples_per_second);
}

// Does them in order until one fails. That a gradient is not finite is a result, and the
// others go on; `diverged` is the first such error.
absl::Status DoRuns(const std::vector<PlannedRun>& runs, const CompareOptions& options,
                    const RunFolder& folder, std::unique_ptr<RunDatabase> database,
                    std::vector<ArmResult>* results, absl::Status* diverged) {
  const std::string database_path = database->path();
  ChildProcesses children;
  DatabaseWriter writer(std::move(database));
  ProgressDisplay progress(&std::cerr, StderrColumns);
  for (const PlannedRun& planned : runs) {
    const JobSpec& spec = planned.spec;
    ArmRunOptions run;
    run.title = planned.title;
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
    const absl::Status ended = RunArm(spec, run, &writer, &children, &progress);
    const absl::Status outcome = Annotate(ended, absl::StrCat("arm ", planned.title));
    if (!ended.ok() && ExitCodeOf(ended) != ExitCode::kNotANumber) return outcome;
    diverged->Update(outcome);
    ASSIGN_OR_RETURN(
        const ArmRecords records,
        ReadArm(database_path, spec.arm().name(), spec.experiment().training().seed()));
    results->push_back(Summarize(spec, records, ended));
    std::cerr << OneLine(planned.title, results->back()) << std::endl;
  }
  return absl::OkStatus();
}

absl::Status CheckCertificates(const std::vector<ArmResult>& results) {
  for (const ArmResult& result : results) {
    for (const Certificate* certificate :
         {&result.replica, &result.traffic, &result.consistency}) {
      if (certificate->verdict == Verdict::kFail) {
        return CheckFailedError(absl::StrCat("arm ", result.name, ", seed ", result.seed,
                                             ": ", certificate->why));
      }
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
  // Loaded only to be checked: damaged data are one error here, not one per worker.
  ASSIGN_OR_RETURN(const DataSet data,
                   LoadFashionMnist(experiment.data().fashion_mnist().directory()));
  RETURN_IF_ERROR(CheckAgainstData(experiment, data.shape.train_count));
  ASSIGN_OR_RETURN(std::vector<JobSpec> specs,
                   ResolveArms(experiment, options.arm, data.shape));
  const bool on_hosts = std::any_of(specs.begin(), specs.end(), OnHosts);
  if (on_hosts && options.external) {
    return absl::InvalidArgumentError(
        "--external: the arm has cluster.hosts, on which psring starts the processes "
        "itself; allowed: one of the two");
  }
  if (options.dry_run) {
    std::vector<std::string> plans;
    for (const JobSpec& spec : specs) plans.push_back(PlanTable(spec, data.shape));
    std::cout << absl::StrJoin(plans, "\n");
    return absl::OkStatus();
  }
  // A process left over from another run must not pass for one of this.
  const std::string suffix =
      absl::StrCat("-", getpid(), "-", absl::ToUnixMillis(absl::Now()));
  for (JobSpec& spec : specs) {
    spec.set_job(options.job.empty() ? absl::StrCat(spec.job(), suffix) : options.job);
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
  std::cerr << Announcement(experiment, specs, folder.path()) << std::flush;

  const std::vector<PlannedRun> runs = PlanRuns(specs);
  std::vector<JobSpec> run_specs;
  for (const PlannedRun& run : runs) run_specs.push_back(run.spec);
  std::vector<ArmResult> results;
  absl::Status diverged;
  const absl::Status outcome =
      DoRuns(runs, options, folder, std::move(database), &results, &diverged);
  CompareReplicas(run_specs, &results);
  const absl::Status written =
      folder.Write("summary.json", SummaryJson(experiment, results, outcome));
  if (!results.empty()) std::cout << ResultTable(experiment, results) << std::flush;
  RETURN_IF_ERROR(outcome);
  RETURN_IF_ERROR(written);
  RETURN_IF_ERROR(CheckCertificates(results));
  return diverged;
}

}  // namespace psring
