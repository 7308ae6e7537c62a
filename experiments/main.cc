// psring: the command that compares the two architectures.
#include <signal.h>

#include <algorithm>
#include <functional>
#include <iostream>
#include <string>

#include "CLI/CLI.hpp"
#include "absl/strings/ascii.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "common/errors.h"
#include "experiments/bench/bench.h"
#include "experiments/build_check.h"
#include "experiments/compare.h"
#include "experiments/environment.h"
#include "experiments/explain/explain.h"
#include "experiments/export.h"
#include "experiments/figures/figures.h"
#include "experiments/probe/probe.h"
#include "experiments/report/report.h"
#include "experiments/trace/trace.h"
#include "glog/logging.h"
#include "grpc/support/log.h"

namespace psring {
namespace {

// What is wrong with HOST:PORT, or nothing. gRPC takes a port that was left out for 443.
std::string CheckHostPort(const std::string& text) {
  const size_t colon = text.rfind(':');
  const std::string host = text.substr(0, colon);
  const std::string port = colon == std::string::npos ? "" : text.substr(colon + 1);
  const bool bare_ipv6 = host.find(':') != std::string::npos && host.front() != '[';
  if (host.empty() || bare_ipv6 || port.empty() ||
      !std::all_of(port.begin(), port.end(), absl::ascii_isdigit)) {
    return "\"" + text + "\" is not HOST:PORT, with an IPv6 host in brackets";
  }
  return "";
}

// As a person would have typed it.
std::string CommandLine(int argc, char** argv) {
  return absl::StrCat("psring ", absl::StrJoin(argv + 1, argv + argc, " "));
}

void AddCommonOptions(CLI::App* command, CompareOptions* options) {
  command
      ->add_option("config", options->config_path,
                   "Experiment file (text format of proto/experiment.proto)")
      ->required();
  command
      ->add_option("--set", options->overrides,
                   "Replaces a field, as in training.steps=50; may be repeated")
      ->take_all()
      ->expected(1);
  command->add_option("--out", options->out,
                      "Run folder, new or empty (default: runs/NAME-TIME)");
  CLI::Option* restore = command->add_option("--restore", options->restore,
                                             "Continues from the newest checkpoint in "
                                             "the folder of a run, or from the one whose "
                                             "folder this is");
  command
      ->add_flag("--restore-previous", options->restore_previous,
                 "Where that one is damaged, continues from the one before")
      ->needs(restore);
  command->add_flag("--print-config", options->print_config,
                    "Prints the resolved configuration and runs nothing");
  command->add_flag("--dry-run", options->dry_run,
                    "Prints the plan by formula and runs nothing");
}

int Main(int argc, char** argv) {
  // Where no arm runs there is nothing to make a checkpoint of, and nothing to die of.
  // ChildProcesses blocks it, and what is blocked is not ignored.
  signal(SIGUSR1, SIG_IGN);
  FLAGS_logtostderr = true;
  FLAGS_minloglevel = google::WARNING;
  google::InitGoogleLogging(argv[0]);
  // What gRPC logs comes back as a status too, and a failure is one line of ours.
  gpr_set_log_function([](gpr_log_func_args*) {});

  CLI::App app(
      "psring compares parameter servers and ring all-reduce: the same model, data and "
      "optimizer through both, with the proof that both did the same work.");
  app.name("psring");
  app.require_subcommand(1);
  app.footer(
      "Exit codes: 0 ok, 1 run-time failure, 2 wrong usage or configuration, 3 a check "
      "failed, 4 rendezvous timed out, 5 a peer was lost, 6 a gradient is not finite, "
      "77 a library or a GPU that it takes is missing, 128+n signal n.");

  CompareOptions options;
  CLI::App* compare = app.add_subcommand("compare", "Runs all arms and compares them");
  AddCommonOptions(compare, &options);

  CLI::App* run = app.add_subcommand("run", "Runs one arm");
  AddCommonOptions(run, &options);
  run->add_option("--arm", options.arm, "The arm's name")->required();
  CLI::Option* external = run->add_flag(
      "--external", options.external,
      "Starts no processes: prints the commands to start by hand on other hosts");
  CLI::Option* listen =
      run->add_option("--listen", options.listen, "HOST:PORT of the coordinator")
          ->check(CheckHostPort)
          ->needs(external);
  external->needs(listen);
  run->add_option(
         "--advertise", options.advertise,
         "Host at which other hosts reach the coordinator (default: of --listen)")
      ->needs(external);
  run->add_option("--job", options.job, "Name of the job (default: made up)");
  for (CLI::App* command : {compare, run}) {
    command
        ->add_option("--rendezvous-timeout", options.rendezvous_timeout_seconds,
                     "Seconds that processes wait for each other to start")
        ->capture_default_str()
        ->check(CLI::PositiveNumber);
    command->add_option("--tensorboard", options.tensorboard,
                        "Folder for event files of TensorBoard (default: none)");
    command
        ->add_option("--metrics", options.metrics,
                     "HOST:PORT at which psring answers Prometheus, and its processes at "
                     "the ports that follow (default: nowhere)")
        ->check(CheckHostPort);
  }

  CLI::App* env = app.add_subcommand("env", "Shows what was found on this machine");
  bool check_build = false;
  env->add_flag("--check-build", check_build,
                "Shows what psring was built with, and which of it was found");
  std::function<absl::Status()> chosen;  // Set by the command that was given.
  AddBenchCommand(&app, CommandLine(argc, argv), &chosen);
  AddExplainCommand(&app, &chosen);
  AddTraceCommand(&app, &chosen);
  AddExportCommand(&app, &chosen);
  AddProbeCommand(&app, &chosen);
  AddReportCommand(&app, &chosen);
  AddFiguresCommand(&app, &chosen);
  app.add_subcommand("test", "Builds and runs all tests (done by the psring script)");

  try {
    app.parse(argc, argv);
  } catch (const CLI::ParseError& error) {
    return app.exit(error) == 0 ? static_cast<int>(ExitCode::kOk)
                                : static_cast<int>(ExitCode::kUsage);
  }

  if (env->parsed()) {
    std::cout << (check_build ? BuildTable(CheckBuild())
                              : EnvironmentText(DescribeMachine()));
    return 0;
  }
  const absl::Status status = chosen ? chosen() : Compare(options);
  if (!status.ok()) std::cerr << "psring: " << status.message() << std::endl;
  return static_cast<int>(ExitCodeOf(status));
}

}  // namespace
}  // namespace psring

int main(int argc, char** argv) { return psring::Main(argc, argv); }
