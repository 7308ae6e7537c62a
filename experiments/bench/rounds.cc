#include "experiments/bench/rounds.h"

#include <algorithm>
#include <chrono>
#include <iostream>
#include <utility>

#include "CLI/Config.hpp"
#include "CLI/Formatter.hpp"
#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "common/status_macros.h"

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

// How long the operations may take together, where one has taken `operation`.
absl::Duration DeadlineFor(const BenchMeasure& measure, absl::Duration operation) {
  return Patience(measure.count()) + kMostDelay * measure.operations() * operation;
}

// What is wrong with the text of --min-seconds, or nothing.
std::string CheckLeastSeconds(const std::string& text) {
  double seconds = 0;
  const bool fits =
      absl::SimpleAtod(text, &seconds) && seconds >= 0 && seconds <= kMostSeconds;
  return fits ? "" : absl::StrCat("Value ", text, " not in range 0 to ", kMostSeconds);
}

}  // namespace

void AddRoundFlags(CLI::App* command, RoundOptions* options) {
  const auto add = [&](const char* flag, auto& value, const char* text) {
    return command->add_option(flag, value, text)->capture_default_str();
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
}

BenchRounds::BenchRounds(const RoundOptions& options, const BenchRanks& ranks,
                         std::vector<int64_t> sizes)
    : options_(options),
      sizes_(std::move(sizes)),
      with_servers_(ranks.servers > 0),
      conductor_(ranks),
      rounds_(sizes_.size()) {}

absl::StatusOr<std::string> BenchRounds::Start(const ContestantProcesses& processes) {
  names_.push_back(processes.name);
  for (auto& of_size : rounds_) of_size.emplace_back();
  return conductor_.Start(processes);
}

absl::Status BenchRounds::Run() {
  const auto start = std::chrono::steady_clock::now();
  for (int round = 0; round < options_.rounds; ++round) {
    for (size_t size = 0; size < sizes_.size(); ++size) {
      for (size_t c = 0; c < names_.size(); ++c) {
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

absl::StatusOr<BenchRound> BenchRounds::RunOne(int contestant, int64_t size_bytes) {
  BenchRound round;
  BenchMeasure measure;
  measure.set_count(size_bytes / int64_t{sizeof(float)});
  if (with_servers_) {
    RETURN_IF_ERROR(
        conductor_.Open(contestant, measure.count(), Patience(measure.count())));
  }
  RETURN_IF_ERROR(Check(contestant, size_bytes, measure, &round));
  RETURN_IF_ERROR(Time(contestant, measure, &round));
  return round;
}

absl::Status BenchRounds::Check(int contestant, int64_t size_bytes, BenchMeasure measure,
                                BenchRound* round) {
  if (options_.checks == 0) return absl::OkStatus();
  measure.set_check(true);
  ASSIGN_OR_RETURN(Measured checked,
                   MeasureUnknown(contestant, measure, options_.checks));
  if (with_servers_) {
    ASSIGN_OR_RETURN(const Measured settled,
                     conductor_.Settle(contestant, Patience(measure.count())));
    if (checked.wrong == 0) checked.first_wrong = settled.first_wrong;
    checked.wrong += settled.wrong;
  }
  round->wrong = checked.wrong;
  if (checked.wrong > 0 && first_wrong_.empty()) {
    first_wrong_ = absl::StrCat(names_[contestant], ", ", size_bytes, " bytes, ",
                                checked.first_wrong);
  }
  return absl::OkStatus();
}

absl::Status BenchRounds::Time(int contestant, const BenchMeasure& measure,
                               BenchRound* round) {
  ASSIGN_OR_RETURN(const Measured warm,
                   MeasureUnknown(contestant, measure, options_.warm_up));
  Measured timed;
  if (warm.times_ns.empty()) {
    ASSIGN_OR_RETURN(timed, MeasureUnknown(contestant, measure, options_.iterations));
  } else {
    const auto [fastest, slowest] =
        std::minmax_element(warm.times_ns.begin(), warm.times_ns.end());
    const double wanted = options_.least_seconds * 1e9 /
                          static_cast<double>(std::max<int64_t>(1, *fastest));
    BenchMeasure known = measure;
    known.set_operations(static_cast<int>(std::clamp<double>(
        wanted, options_.iterations, std::max(options_.iterations, kMostIterations))));
    ASSIGN_OR_RETURN(timed,
                     conductor_.Measure(contestant, known,
                                        DeadlineFor(known, absl::Nanoseconds(*slowest))));
  }
  round->times_ns = std::move(timed.times_ns);
  round->processor_ns = timed.processor_ns;
  return absl::OkStatus();
}

absl::StatusOr<Measured> BenchRounds::MeasureUnknown(int contestant, BenchMeasure measure,
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
  all.times_ns.insert(all.times_ns.end(), others.times_ns.begin(), others.times_ns.end());
  if (all.wrong == 0) all.first_wrong = others.first_wrong;
  all.wrong += others.wrong;
  all.processor_ns += others.processor_ns;
  return all;
}

}  // namespace psring
