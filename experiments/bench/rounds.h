// Measures all sizes and contestants in rounds.
#ifndef PSRING_EXPERIMENTS_BENCH_ROUNDS_H_
#define PSRING_EXPERIMENTS_BENCH_ROUNDS_H_

#include <cstdint>
#include <string>
#include <vector>

#include "CLI/App.hpp"
#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/time/time.h"
#include "experiments/bench/conductor.h"
#include "experiments/bench/options.h"
#include "experiments/bench/processes.h"
#include "experiments/bench/result.h"
#include "proto/bench.pb.h"

namespace psring {

// Adds the flags of RoundOptions to a command.
void AddRoundFlags(CLI::App* command, RoundOptions* options);

// Each round has every size, and for each size every contestant, one right after the
// other. What disturbs the machine for longer than a moment so disturbs all contestants
// alike. One thread; errors are Conductor's.
class BenchRounds {
 public:
  // `sizes` are bytes of floats.
  BenchRounds(const RoundOptions& options, const BenchRanks& ranks,
              std::vector<int64_t> sizes);

  // Starts the next contestant; all of them before Run. Returns the version that it has
  // named.
  absl::StatusOr<std::string> Start(const ContestantProcesses& processes);

  // Measures everything, and says on stderr when a round has ended.
  absl::Status Run();

  // By contestant and round, of the size with that index.
  const std::vector<std::vector<BenchRound>>& of_size(size_t size) const {
    return rounds_[size];
  }
  // Of the first wrong result; empty: there was none.
  const std::string& first_wrong() const { return first_wrong_; }

 private:
  absl::StatusOr<BenchRound> RunOne(int contestant, int64_t size_bytes);
  absl::Status Check(int contestant, int64_t size_bytes, BenchMeasure measure,
                     BenchRound* round);
  absl::Status Time(int contestant, const BenchMeasure& measure, BenchRound* round);
  // Measures first one operation, of which nothing is known, and then the others within a
  // time that follows from it.
  absl::StatusOr<Measured> MeasureUnknown(int contestant, BenchMeasure measure,
                                          int operations);

  const RoundOptions options_;
  const std::vector<int64_t> sizes_;
  const bool with_servers_;
  std::vector<std::string> names_;  // Of contestants.
  Conductor conductor_;
  // By size, contestant and round.
  std::vector<std::vector<std::vector<BenchRound>>> rounds_;
  std::string first_wrong_;
};

}  // namespace psring

#endif  // PSRING_EXPERIMENTS_BENCH_ROUNDS_H_
