#include "experiments/probe/probe.h"

#include <algorithm>
#include <iostream>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "CLI/Config.hpp"
#include "CLI/Formatter.hpp"
#include "absl/strings/str_cat.h"
#include "common/status_macros.h"
#include "experiments/config.h"
#include "experiments/device_check.h"
#include "experiments/environment.h"
#include "experiments/hosts/host_plan.h"
#include "experiments/hosts/network_namespace.h"
#include "experiments/probe/ground_probe.h"
#include "experiments/probe/probe_report.h"
#include "experiments/resolve_arms.h"
#include "experiments/run_folder.h"

namespace psring {
namespace {

struct ProbeOptions {
  std::string config_path;
  std::vector<std::string> overrides;
  std::string out;  // Empty: nothing is kept.
};

absl::Status Probe(const ProbeOptions& options) {
  ASSIGN_OR_RETURN(const Experiment experiment,
                   LoadExperiment(options.config_path, options.overrides));
  ASSIGN_OR_RETURN(const DataSetShape data, CheckData(experiment));
  ASSIGN_OR_RETURN(const std::vector<JobSpec> specs,
                   ResolveArms(experiment, /*only=*/"", data));
  RETURN_IF_ERROR(CheckDevice(specs, /*external=*/false));
  // Before there is another thread, which would stay outside.
  if (std::any_of(specs.begin(), specs.end(), OnHosts)) {
    RETURN_IF_ERROR(EnterPrivateNetwork());
  }
  std::optional<RunFolder> folder;
  if (!options.out.empty()) {
    ASSIGN_OR_RETURN(folder, RunFolder::Create(options.out, experiment.name()));
    RETURN_IF_ERROR(folder->Write("config.textproto", PrintExperiment(experiment)));
    RETURN_IF_ERROR(
        folder->Write("environment.json", EnvironmentJson(DescribeMachine())));
  }
  ASSIGN_OR_RETURN(const ProbeReport report, ProbeGround(specs, &std::cerr));
  std::cout << ReportText(report) << std::flush;
  return folder ? folder->Write("probe.json", ReportJson(report)) : absl::OkStatus();
}

}  // namespace

void AddProbeCommand(CLI::App* app, std::function<absl::Status()>* chosen) {
  const auto options = std::make_shared<ProbeOptions>();
  CLI::App* probe = app->add_subcommand(
      "probe", "Measures links and arithmetic, and the floor of each arm's exchange");
  probe
      ->add_option("config", options->config_path,
                   "Experiment file (text format of proto/experiment.proto)")
      ->required();
  probe
      ->add_option("--set", options->overrides,
                   "Replaces a field, as in training.steps=50; may be repeated")
      ->take_all()
      ->expected(1);
  probe->add_option("--out", options->out,
                    "Folder, new or empty, for the results (default: none is kept)");
  probe->callback([=] { *chosen = [=] { return Probe(*options); }; });
}

}  // namespace psring
