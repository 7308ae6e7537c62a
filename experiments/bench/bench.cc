#include "experiments/bench/bench.h"

#include <cstdint>
#include <iostream>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "CLI/Config.hpp"
#include "CLI/Formatter.hpp"
#include "common/status_macros.h"
#include "experiments/bench/apply/apply.h"
#include "experiments/bench/contestants.h"
#include "experiments/bench/files.h"
#include "experiments/bench/options.h"
#include "experiments/bench/outputs.h"
#include "experiments/bench/processes.h"
#include "experiments/bench/push_pull/push_pull.h"
#include "experiments/bench/report.h"
#include "experiments/bench/result.h"
#include "experiments/bench/rounds.h"
#include "experiments/bench/step/step.h"
#include "experiments/child_processes.h"
#include "experiments/environment.h"

namespace psring {
namespace {

std::vector<BenchRow> RowsOf(const BenchRounds& rounds, const std::vector<int64_t>& sizes,
                             int ranks, const std::vector<ContestantPlan>& plans) {
  std::vector<Contestant> contestants;
  for (const ContestantPlan& plan : plans) contestants.push_back(plan.contestant);
  std::vector<BenchRow> rows;
  for (size_t size = 0; size < sizes.size(); ++size) {
    for (BenchRow& row :
         MakeRows(sizes[size], ranks, contestants, rounds.of_size(size))) {
      rows.push_back(std::move(row));
    }
  }
  return rows;
}

// Starts all contestants. Returns peers and their versions.
absl::StatusOr<Environment> StartAll(const std::vector<ContestantPlan>& plans,
                                     BenchRounds* rounds) {
  Environment versions;
  for (const ContestantPlan& plan : plans) {
    ASSIGN_OR_RETURN(const std::string version, rounds->Start(plan));
    const std::pair entry(plan.contestant.peer, version);
    if (!version.empty() && (versions.empty() || versions.back() != entry)) {
      versions.push_back(entry);
    }
  }
  return versions;
}

absl::Status RunBench(const BenchOptions& options, const std::string& command) {
  ASSIGN_OR_RETURN(const std::vector<int64_t> sizes, SizesOf(options));
  ASSIGN_OR_RETURN(BenchOutputs outputs, BenchOutputs::Prepare(options));
  ASSIGN_OR_RETURN(BenchFolder folder, BenchFolder::Make());
  const BenchPrograms programs{
      .rank = BuiltProgram("experiments/bench/bench_rank"),
      .gloo = BuiltProgram("experiments/peers/gloo_rank"),
      .open_mpi = BuiltProgram("experiments/peers/open_mpi_rank")};
  ASSIGN_OR_RETURN(const std::vector<ContestantPlan> plans,
                   PlanContestants(options, sizes.back(), programs, folder.path()));

  BenchContext context{.command = command,
                       .environment = DescribeHost(),
                       .load_before = LoadAverage(),
                       .load_after = "",
                       .ranks = options.ranks};
  BenchRounds rounds(options, EqualRanks(options.ranks), sizes);
  const absl::StatusOr<Environment> versions = StartAll(plans, &rounds);
  absl::Status status = versions.status();
  if (status.ok()) {
    context.environment.insert(context.environment.end(), versions->begin(),
                               versions->end());
    std::cout << BenchHeader(context) << std::endl;
    status = rounds.Run();
  }
  RETURN_IF_ERROR(folder.End(status));
  context.load_after = LoadAverage();
  const std::vector<BenchRow> rows = RowsOf(rounds, sizes, options.ranks, plans);
  std::cout << BenchTable(rows) << BenchFooter(context) << std::flush;
  return outputs.Write(context, rows, rounds.first_wrong());
}

}  // namespace

void AddBenchCommand(CLI::App* app, std::string command,
                     std::function<absl::Status()>* chosen) {
  CLI::App* bench = app->add_subcommand("bench", "Measures a part on its own");
  bench->require_subcommand(1);
  AddStepCommand(bench, command, chosen);
  AddApplyCommand(bench, command, chosen);
  AddPushPullCommand(bench, command, chosen);
  CLI::App* all_reduce = bench->add_subcommand(
      "all-reduce", "Times all-reduces between processes of this machine");
  const auto options = std::make_shared<BenchOptions>();
  const auto add = [&](const char* flag, auto& value, const char* text) {
    return all_reduce->add_option(flag, value, text)->capture_default_str();
  };
  AddRoundFlags(all_reduce, options.get());
  add("--ranks", options->ranks, "Processes");
  add("--transport", options->transports, "tcp, shared_memory, grpc")->delimiter(',');
  add("--algorithm", options->algorithms,
      "ring, halving_doubling, tree, gather_broadcast, auto; not for shared memory, "
      "which has one of its own")
      ->delimiter(',');
  add("--connections", options->connections, "Parallel connections between two ranks");
  all_reduce->add_flag("--spin", options->spin,
                       "psring's ranks wait without sleeping, a processor each");
  add("--against", options->against, "Other libraries: gloo, openmpi")->delimiter(',');
  add("--json", options->json_path, "Also writes the rows to this file");
  add("--csv", options->csv_path, "Also writes the rows to this file");
  add("--write-table", options->table_path,
      "Writes the fastest algorithm of each size to this table for auto; its rows for "
      "other transports and numbers of ranks stay");
  all_reduce->callback([=, command = std::move(command)] {
    *chosen = [=] { return RunBench(*options, command); };
  });
}

}  // namespace psring
