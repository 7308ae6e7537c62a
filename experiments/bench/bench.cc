#include "experiments/bench/bench.h"

#include <stdlib.h>
#include <unistd.h>

#include <algorithm>
#include <chrono>
#include <filesystem>
#include <iostream>
#include <memory>
#include <utility>
#include <vector>

#include "CLI/Config.hpp"
#include "CLI/Formatter.hpp"
#include "absl/cleanup/cleanup.h"
#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "common/errors.h"
#include "common/status_macros.h"
#include "experiments/bench/conductor.h"
#include "experiments/bench/contestants.h"
#include "experiments/bench/options.h"
#include "experiments/bench/outputs.h"
#include "experiments/bench/report.h"
#include "experiments/bench/result.h"
#include "experiments/child_processes.h"
#include "experiments/environment.h"

namespace psring {
namespace {

// A reply must fit into a packet.
constexpr int kMostIterations = 10'000;
constexpr double kMostSeconds = 3600;

// For an operation of which nothing is known yet, and its values to be made ready.
absl::Duration Patience(int64_t count) {
  return absl::Minutes(2) + absl::Microseconds(1) * count;
}
// Operations take so many times longer than those before them, at most.
constexpr int kMostDelay = 20;

// Measures all sizes and contestants in rounds: each round has every size, and for each
// size every contestant, one right after the other. What disturbs the machine for longer
// than a moment so disturbs all contestants alike.
class Bench {
 public:
  Bench(const BenchOptions& options, std::vector<int64_t> sizes,
        std::vector<ContestantPlan> plans)
      : options_(options),
        sizes_(std::move(sizes)),
        plans_(std::move(plans)),
        conductor_(options.ranks),
        rounds_(sizes_.size(), std::vector<std::vector<BenchRound>>(plans_.size())) {}

  // Returns peers and their versions.
  absl::StatusOr<Environment> Start() {
    Environment versions;
    for (const ContestantPlan& plan : plans_) {
      ASSIGN_OR_RETURN(const std::string version, conductor_.Start(plan));
      const std::pair entry(plan.contestant.peer, version);
      if (!version.empty() && (versions.empty() || versions.back() != entry)) {
        versions.push_back(entry);
      }
    }
    return versions;
  }

  absl::Status Run() {
    const auto start = std::chrono::steady_clock::now();
    for (int round = 0; round < options_.rounds; ++round) {
      for (size_t size = 0; size < sizes_.size(); ++size) {
        for (size_t c = 0; c < plans_.size(); ++c) {
          ASSIGN_OR_RETURN(BenchRound result, RunOne(static_cast<int>(c), sizes_[size]));
          rounds_[size][c].push_back(std::move(result));
        }
      }
      const auto took = std::chrono::duration_cast<std::chrono::seconds>(
          std::chrono::steady_clock::now() - start);
      std::cerr << "psring: round " << round + 1 << " of " << options_.rounds << ", "
                << took.count() << " s" << std::endl;
    }
    return conductor_.Finish();
  }

  std::vector<BenchRow> Rows() const {
    std::vector<Contestant> contestants;
    for (const ContestantPlan& plan : plans_) contestants.push_back(plan.contestant);
    std::vector<BenchRow> rows;
    for (size_t size = 0; size < sizes_.size(); ++size) {
      for (BenchRow& row :
           MakeRows(sizes_[size], options_.ranks, contestants, rounds_[size])) {
        rows.push_back(std::move(row));
      }
    }
    return rows;
  }

  // Of the first wrong result; empty: there was none.
  const std::string& first_wrong() const { return first_wrong_; }

 private:
  absl::StatusOr<BenchRound> RunOne(int contestant, int64_t size_bytes) {
    BenchRound round;
    BenchMeasure measure;
    measure.set_count(size_bytes / int64_t{sizeof(float)});
    measure.set_check(true);
    ASSIGN_OR_RETURN(const Measured checked,
                     MeasureUnknown(contestant, measure, options_.checks));
    if (options_.checks > 0) round.wrong = checked.wrong;
    if (checked.wrong > 0 && first_wrong_.empty()) {
      first_wrong_ = absl::StrCat(plans_[contestant].name, ", ", size_bytes, " bytes, ",
                                  checked.first_wrong);
    }
    measure.set_check(false);
    ASSIGN_OR_RETURN(const Measured warm,
                     MeasureUnknown(contestant, measure, options_.warm_up));
    if (warm.times_ns.empty()) {
      ASSIGN_OR_RETURN(Measured timed,
                       MeasureUnknown(contestant, measure, options_.iterations));
      round.times_ns = std::move(timed.times_ns);
      return round;
    }
    const auto [fastest, slowest] =
        std::minmax_element(warm.times_ns.begin(), warm.times_ns.end());
    const double wanted = options_.least_seconds * 1e9 /
                          static_cast<double>(std::max<int64_t>(1, *fastest));
    measure.set_operations(static_cast<int>(std::clamp<double>(
        wanted, options_.iterations, std::max(options_.iterations, kMostIterations))));
    ASSIGN_OR_RETURN(
        Measured timed,
        conductor_.Measure(contestant, measure,
                           DeadlineFor(measure, absl::Nanoseconds(*slowest))));
    round.times_ns = std::move(timed.times_ns);
    return round;
  }

  // Measures first one operation, of which nothing is known, and then the others within a
  // time that follows from it.
  absl::StatusOr<Measured> MeasureUnknown(int contestant, BenchMeasure measure,
                                          int operations) {
    if (operations == 0) return Measured{};
    measure.set_operations(1);
    const auto start = std::chrono::steady_clock::now();
    ASSIGN_OR_RETURN(Measured all,
                     conductor_.Measure(contestant, measure, Patience(measure.count())));
    if (operations == 1) return all;
    // Of a check most is making the inputs and comparing, which the ranks do not time.
    const auto took = absl::FromChrono(std::chrono::steady_clock::now() - start);
    measure.set_operations(operations - 1);
    measure.set_first_operation(1);
    ASSIGN_OR_RETURN(const Measured others,
                     conductor_.Measure(contestant, measure, DeadlineFor(measure, took)));
    all.times_ns.insert(all.times_ns.end(), others.times_ns.begin(),
                        others.times_ns.end());
    if (all.wrong == 0) all.first_wrong = others.first_wrong;
    all.wrong += others.wrong;
    return all;
  }

  // How long the operations may take together, where one has taken `operation`.
  static absl::Duration DeadlineFor(const BenchMeasure& measure,
                                    absl::Duration operation) {
    return Patience(measure.count()) + kMostDelay * measure.operations() * operation;
  }

  const BenchOptions& options_;
  const std::vector<int64_t> sizes_;
  const std::vector<ContestantPlan> plans_;
  Conductor conductor_;
  // By size, contestant and round.
  std::vector<std::vector<std::vector<BenchRound>>> rounds_;
  std::string first_wrong_;
};

// What is wrong with the text of --min-seconds, or nothing.
std::string CheckLeastSeconds(const std::string& text) {
  double seconds = 0;
  const bool fits =
      absl::SimpleAtod(text, &seconds) && seconds >= 0 && seconds <= kMostSeconds;
  return fits ? "" : absl::StrCat("Value ", text, " not in range 0 to ", kMostSeconds);
}

absl::Status RunBench(const BenchOptions& options, const std::string& command) {
  ASSIGN_OR_RETURN(std::vector<int64_t> sizes, SizesOf(options));
  ASSIGN_OR_RETURN(BenchOutputs outputs, BenchOutputs::Prepare(options));
  std::string folder =
      (std::filesystem::temp_directory_path() / "psring-bench-XXXXXX").string();
  if (mkdtemp(folder.data()) == nullptr) {
    return absl::InternalError(absl::StrCat("cannot make the folder ", folder));
  }
  // Stays after a failure, for the logs in it, unless somebody wanted the end.
  absl::Cleanup remove_folder = [&] { std::filesystem::remove_all(folder); };
  const BenchPrograms programs{
      .rank = BuiltProgram("experiments/bench/bench_rank"),
      .gloo = BuiltProgram("experiments/peers/gloo_rank"),
      .open_mpi = BuiltProgram("experiments/peers/open_mpi_rank")};
  ASSIGN_OR_RETURN(std::vector<ContestantPlan> plans,
                   PlanContestants(options, sizes.back(), programs, folder));

  BenchContext context{.command = command,
                       .environment = DescribeHost(),
                       .load_before = LoadAverage(),
                       .load_after = "",
                       .ranks = options.ranks};
  Bench bench(options, std::move(sizes), std::move(plans));
  absl::StatusOr<Environment> versions = bench.Start();
  absl::Status status = versions.status();
  if (status.ok()) {
    context.environment.insert(context.environment.end(), versions->begin(),
                               versions->end());
    std::cout << BenchHeader(context) << std::endl;
    status = bench.Run();
  }
  if (absl::IsCancelled(status)) return status;
  if (!status.ok()) {
    std::move(remove_folder).Cancel();
    return Annotate(status, absl::StrCat("logs in ", folder));
  }
  context.load_after = LoadAverage();
  const std::vector<BenchRow> rows = bench.Rows();
  std::cout << BenchTable(rows) << BenchFooter(context) << std::flush;
  return outputs.Write(context, rows, bench.first_wrong());
}

}  // namespace

void AddBenchCommand(CLI::App* app, std::string command,
                     std::function<absl::Status()>* chosen) {
  CLI::App* bench = app->add_subcommand("bench", "Measures a part on its own");
  bench->require_subcommand(1);
  CLI::App* all_reduce = bench->add_subcommand(
      "all-reduce", "Times all-reduces between processes of this machine");
  const auto options = std::make_shared<BenchOptions>();
  const auto add = [&](const char* flag, auto& value, const char* text) {
    return all_reduce->add_option(flag, value, text)->capture_default_str();
  };
  add("-b,--minbytes", options->first_size, "First size; sizes may end in K, M or G");
  add("-e,--maxbytes", options->last_size, "Last size");
  add("-f,--stepfactor", options->factor, "From one size to the next");
  add("-n,--iters", options->iterations, "Timed operations of a size in a round")
      ->check(CLI::Range(1, kMostIterations));
  add("-w,--warmup_iters", options->warm_up, "Operations before them")
      ->check(CLI::Range(0, kMostIterations));
  add("-c,--check", options->checks, "Operations before those, whose results are checked")
      ->check(CLI::Range(0, kMostIterations));
  add("--rounds", options->rounds, "How often all sizes are measured")
      ->check(CLI::Range(1, 1000));
  add("--min-seconds", options->least_seconds,
      "A size in a round is timed for so long, if -n takes less; needs a warm-up")
      ->check(CheckLeastSeconds);
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
