#include "experiments/bench/apply/apply.h"

#include <chrono>
#include <cstdint>
#include <iostream>
#include <memory>
#include <utility>
#include <vector>

#include "CLI/Config.hpp"
#include "CLI/Formatter.hpp"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "common/errors.h"
#include "common/status_macros.h"
#include "experiments/bench/apply/options.h"
#include "experiments/bench/apply/plan.h"
#include "experiments/bench/apply/received.h"
#include "experiments/bench/apply/reference.h"
#include "experiments/bench/apply/report.h"
#include "experiments/bench/apply/result.h"
#include "experiments/bench/apply/thread_team.h"
#include "experiments/bench/apply/triad.h"
#include "experiments/bench/apply/updates.h"
#include "experiments/bench/files.h"
#include "experiments/bench/report.h"
#include "experiments/environment.h"
#include "experiments/text.h"

namespace psring {
namespace {

using Clock = std::chrono::steady_clock;

int64_t NanosecondsSince(Clock::time_point start) {
  return std::chrono::duration_cast<std::chrono::nanoseconds>(Clock::now() - start)
      .count();
}

std::string NameOf(const ApplyCase& row) {
  return absl::StrCat(WithThousands(row.size_bytes()), " bytes, ", row.optimizer, ", ",
                      PieceKindName(row.pieces));
}

// Measures one row after the other, each with memory of its own, and in each round of a
// row its updates and the triad in turn: what disturbs the machine for longer than a
// moment disturbs both.
class ApplyBench {
 public:
  ApplyBench(const ApplyOptions& options, const ApplySettings& settings)
      : rounds_(options.rounds), cases_(settings.rows), team_(options.threads) {}

  absl::Status Run() {
    const Clock::time_point start = Clock::now();
    for (const ApplyCase& row : cases_) {
      RETURN_IF_ERROR(Annotate(RunRow(row), NameOf(row)));
      std::cerr << "psring: row " << rows_.size() << " of " << cases_.size() << ", "
                << NameOf(row) << ", " << NanosecondsSince(start) / 1'000'000'000 << " s"
                << std::endl;
    }
    return absl::OkStatus();
  }

  const std::vector<ApplyRow>& rows() const { return rows_; }
  // Of the first wrong result; empty: there was none.
  const std::string& first_wrong() const { return first_wrong_; }

 private:
  absl::Status RunRow(const ApplyCase& row) {
    ASSIGN_OR_RETURN(const std::unique_ptr<ServerUpdates> updates,
                     ServerUpdates::Make(row, &team_));
    Triad triad(TriadCount(row), row.buckets, &team_);
    // A round that does not count comes first.
    ASSIGN_OR_RETURN(ApplyRound round, RunRound(*updates, triad));
    std::vector<ApplyRound> rounds;
    for (int i = 0; i < rounds_; ++i) {
      ASSIGN_OR_RETURN(round, RunRound(*updates, triad));
      rounds.push_back(std::move(round));
    }
    // What is checked has gone through all that was measured.
    ASSIGN_OR_RETURN(const WrongElements wrong, updates->Check(row.buckets / 2));
    if (wrong.count > 0 && first_wrong_.empty()) {
      first_wrong_ = absl::StrCat(NameOf(row), ": ", wrong.first);
    }
    if (const int64_t count = triad.CountWrong(row.buckets / 2); count > 0) {
      return CheckFailedError(absl::StrCat(count, " elements of the triad are wrong"));
    }
    rows_.push_back(MakeApplyRow(row, rounds, wrong.count));
    return absl::OkStatus();
  }

  absl::StatusOr<ApplyRound> RunRound(ServerUpdates& updates, Triad& triad) {
    ApplyRound round;
    for (int64_t bucket = 0; bucket < updates.buckets(); ++bucket) {
      const Clock::time_point start = Clock::now();
      RETURN_IF_ERROR(updates.Update(bucket));
      round.update_ns.push_back(NanosecondsSince(start));
    }
    for (int64_t operation = 0; operation < updates.buckets(); ++operation) {
      const Clock::time_point start = Clock::now();
      triad.Run(operation);
      round.triad_ns.push_back(NanosecondsSince(start));
    }
    return round;
  }

  const int rounds_;
  const std::vector<ApplyCase> cases_;
  ThreadTeam team_;
  std::vector<ApplyRow> rows_;
  std::string first_wrong_;
};

absl::Status RunApplyBench(const ApplyOptions& options, const std::string& command) {
  const ApplyMachine machine = FindApplyMachine();
  ASSIGN_OR_RETURN(const ApplySettings settings, CheckApplyOptions(options, machine));
  RETURN_IF_ERROR(CheckWritable("--json", options.json_path));
  BenchContext context{.command = command,
                       .environment = DescribeHost(),
                       .load_before = LoadAverage(),
                       .load_after = ""};
  const Environment work = ApplyWork(options, settings, machine);
  context.environment.insert(context.environment.end(), work.begin(), work.end());
  std::cout << BenchHeader(context) << std::endl;
  ApplyBench bench(options, settings);
  RETURN_IF_ERROR(bench.Run());
  context.load_after = LoadAverage();
  std::cout << ApplyTable(bench.rows()) << ApplyFooter(context) << std::flush;
  return Conclude(
      WriteFile(options.json_path, ApplyJson(context, options, settings, bench.rows())),
      bench.first_wrong().empty()
          ? ""
          : absl::StrCat("wrong parameters: ", bench.first_wrong()));
}

}  // namespace

void AddApplyCommand(CLI::App* bench, std::string command,
                     std::function<absl::Status()>* chosen) {
  CLI::App* apply = bench->add_subcommand(
      "apply", "Times a server's sums and optimizer, beside the speed of memory");
  const auto options = std::make_shared<ApplyOptions>();
  const auto add = [&](const char* flag, auto& value, const std::string& text) {
    return apply->add_option(flag, value, text)->capture_default_str();
  };
  add("-b,--minbytes", options->first_size,
      "First size of what is updated; sizes may end in K, M or G");
  add("-e,--maxbytes", options->last_size, "Last size");
  add("-f,--stepfactor", options->factor, "From one size to the next");
  add("--contributions", options->contributions, "Gradients that an update sums")
      ->check(CLI::Range(1, 64));
  add("--optimizer", options->optimizers, absl::StrJoin(ApplyOptimizerNames(), ", "))
      ->delimiter(',');
  add("--pieces", options->pieces,
      "How gradients lie in memory: whole; cut as gRPC receives them")
      ->delimiter(',');
  add("--threads", options->threads, "A slot each at a time")->check(CLI::Range(1, 256));
  add("--rounds", options->rounds, "How often a row and the triad are measured in turn")
      ->check(CLI::Range(1, 1000));
  add("--working-set", options->working_set,
      absl::StrCat("Bytes that a row goes through before it comes back to the same "
                   "(default: ",
                   kCachesFilled, " times the last-level cache)"));
  add("--json", options->json_path, "Also writes the rows to this file");
  apply->callback([=, command = std::move(command)] {
    *chosen = [=] { return RunApplyBench(*options, command); };
  });
}

}  // namespace psring
