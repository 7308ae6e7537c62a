// What `psring bench apply` is asked to do.
#ifndef PSRING_EXPERIMENTS_BENCH_APPLY_OPTIONS_H_
#define PSRING_EXPERIMENTS_BENCH_APPLY_OPTIONS_H_

#include <cstdint>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "experiments/bench/apply/plan.h"

namespace psring {

struct ApplyOptions {
  // Sizes in bytes: the first, then each `factor` times the one before, up to `last`.
  std::string first_size = "4M";
  std::string last_size = "64M";
  int64_t factor = 4;

  int contributions = 4;
  std::vector<std::string> optimizers = ApplyOptimizerNames();
  std::vector<std::string> pieces = {"whole", "cut"};
  int threads = 1;
  int rounds = 5;
  // That a row goes through before it comes back to the same; empty: kCachesFilled times
  // the last-level cache.
  std::string working_set;

  std::string json_path;  // Empty: none.
};
inline constexpr int64_t kCachesFilled = 4;

// What this machine has.
struct ApplyMachine {
  int64_t cache_bytes = 0;  // Of the last level.
  int64_t available_bytes = 0;
};
// Where the kernel does not tell the cache's size, a large one's; where it does not tell
// what memory is available, as much as there may be.
ApplyMachine FindApplyMachine();

// The same, checked and in numbers.
struct ApplySettings {
  int64_t working_set_bytes = 0;
  int64_t memory_bytes = 0;  // Of the row that needs most.
  std::vector<ApplyCase> rows;
};

// Pure. kInvalidArgument: a value that makes no sense, or more than the memory that is
// available; the message says what is allowed.
absl::StatusOr<ApplySettings> CheckApplyOptions(const ApplyOptions& options,
                                                const ApplyMachine& machine);

}  // namespace psring

#endif  // PSRING_EXPERIMENTS_BENCH_APPLY_OPTIONS_H_
