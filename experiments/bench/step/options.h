// What `psring bench step` is asked to do.
#ifndef PSRING_EXPERIMENTS_BENCH_STEP_OPTIONS_H_
#define PSRING_EXPERIMENTS_BENCH_STEP_OPTIONS_H_

#include <cstdint>
#include <string>
#include <vector>

#include "absl/status/statusor.h"

namespace psring {

struct StepBenchOptions {
  std::string model = "784-1024-1024-10";  // Widths, from the features to the classes.
  int64_t batch = 64;                      // Samples of a rank in a step.
  int ranks = 2;
  int servers = 1;
  std::vector<std::string> arms = {"ring", "servers", "local"};
  std::vector<std::string> caps = {"1M"};         // Of buckets, in bytes.
  std::vector<std::string> transports = {"tcp"};  // Of rings.
  std::vector<std::string> against;

  int rounds = 5;
  int iterations = 100;  // Timed steps of a contestant in a round.
  int warm_up = 20;      // Steps before them.

  std::string json_path;  // Empty: none.
};

// The same, checked and in numbers.
struct StepSettings {
  std::vector<int64_t> widths;
  std::vector<int64_t> caps;
  int64_t parameters = 0;
  int64_t samples = 0;  // In the training set.
};

// kInvalidArgument: a value that is not there or makes no sense; the message says what is
// allowed.
absl::StatusOr<StepSettings> CheckStepOptions(const StepBenchOptions& options);

}  // namespace psring

#endif  // PSRING_EXPERIMENTS_BENCH_STEP_OPTIONS_H_
