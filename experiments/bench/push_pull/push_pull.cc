#include "experiments/bench/push_pull/push_pull.h"

#include <cstdint>
#include <iostream>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "CLI/Config.hpp"
#include "CLI/Formatter.hpp"
#include "absl/status/statusor.h"
#include "absl/strings/str_join.h"
#include "common/status_macros.h"
#include "experiments/bench/files.h"
#include "experiments/bench/processes.h"
#include "experiments/bench/push_pull/contestants.h"
#include "experiments/bench/push_pull/options.h"
#include "experiments/bench/push_pull/report.h"
#include "experiments/bench/push_pull/result.h"
#include "experiments/bench/report.h"
#include "experiments/bench/rounds.h"
#include "experiments/child_processes.h"
#include "experiments/environment.h"
#include "experiments/inventory.h"

namespace psring {
namespace {

// Returns the version of gRPC, where somebody uses it.
absl::StatusOr<Environment> StartAll(const std::vector<ContestantProcesses>& all,
                                     BenchRounds* rounds) {
  Environment versions;
  for (const ContestantProcesses& processes : all) {
    ASSIGN_OR_RETURN(const std::string version, rounds->Start(processes));
    if (!version.empty()) versions = {{"grpc", version}};
  }
  return versions;
}

absl::Status RunPushPull(const PushPullOptions& options, const std::string& command) {
  ASSIGN_OR_RETURN(const PushPullSettings settings, CheckPushPullOptions(options));
  RETURN_IF_ERROR(CheckWritable("--json", options.json_path));
  RETURN_IF_ERROR(CheckWritable("--csv", options.csv_path));
  ASSIGN_OR_RETURN(BenchFolder folder, BenchFolder::Make());
  BenchContext context{.command = command,
                       .environment = DescribeHost(),
                       .load_before = LoadAverage(),
                       .load_after = ""};
  BenchRounds rounds(options,
                     ServersAndWorkers(settings.job.servers(), settings.job.workers()),
                     settings.sizes);
  const absl::StatusOr<Environment> versions = StartAll(
      PlanPushPullProcesses(options.contestants, settings.job,
                            BuiltProgram("experiments/bench/push_pull/push_pull_process"),
                            folder.path()),
      &rounds);
  absl::Status status = versions.status();
  if (status.ok()) {
    for (const Environment& more : {*versions, PushPullWork(settings.job)}) {
      context.environment.insert(context.environment.end(), more.begin(), more.end());
    }
    std::cout << BenchHeader(context) << std::endl;
    status = rounds.Run();
  }
  RETURN_IF_ERROR(folder.End(status));
  context.load_after = LoadAverage();

  std::vector<PushPullRow> rows;
  std::vector<PushPullRatio> ratios;
  for (size_t size = 0; size < settings.sizes.size(); ++size) {
    const int64_t bytes = settings.sizes[size];
    for (PushPullRow& row : MakePushPullRows(bytes, settings.job, options.contestants,
                                             rounds.of_size(size))) {
      rows.push_back(std::move(row));
    }
    for (PushPullRatio& ratio : MakePushPullRatios(
             bytes, options.workers, options.contestants, rounds.of_size(size))) {
      ratios.push_back(std::move(ratio));
    }
  }
  std::cout << PushPullTable(rows) << PushPullRatioTable(ratios)
            << PushPullFooter(context) << std::flush;
  absl::Status written =
      WriteFile(options.json_path, PushPullJson(context, settings.job, rows, ratios));
  written.Update(WriteFile(options.csv_path, PushPullCsv(rows)));
  return Conclude(written, rounds.first_wrong());
}

}  // namespace

void AddPushPullCommand(CLI::App* bench, std::string command,
                        std::function<absl::Status()>* chosen) {
  CLI::App* push_pull = bench->add_subcommand(
      "push-pull",
      "Times pushes to and pulls from parameter servers on this machine, beside gRPC "
      "alone and bare sockets");
  const auto options = std::make_shared<PushPullOptions>();
  const auto add = [&](const char* flag, auto& value, const std::string& text) {
    return push_pull->add_option(flag, value, text);
  };
  AddRoundFlags(push_pull, options.get());
  add("--workers", options->workers, "Processes that push and pull")
      ->capture_default_str();
  add("--servers", options->servers, "Processes that serve them")->capture_default_str();
  add("--mode", options->mode, "Of psring's servers: sync, bounded, async")
      ->capture_default_str();
  add("--bound", options->bound, "Of --mode bounded (default: 1)");
  add("--placement", options->placement,
      "Which server owns what: striped, by_tensor_round_robin, by_tensor_size, single")
      ->capture_default_str();
  add("--inventory", options->inventory,
      "The tensors have the relative sizes of this model's: " +
          absl::StrJoin(InventoryNames(), ", ") + " (default: one tensor)");
  add("--wire", options->wire, "What gradients are on their way: fp32, bf16, fp16")
      ->capture_default_str();
  add("--slot-bytes", options->slot_bytes, "A message has at most so many of floats")
      ->capture_default_str();
  add("--contestant", options->contestants, "Who takes part: psring, grpc, tcp")
      ->delimiter(',')
      ->capture_default_str();
  add("--json", options->json_path, "Also writes rows and ratios to this file");
  add("--csv", options->csv_path, "Also writes the rows to this file");
  push_pull->callback([=, command = std::move(command)] {
    *chosen = [=] { return RunPushPull(*options, command); };
  });
}

}  // namespace psring
