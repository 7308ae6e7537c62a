// What `psring bench all-reduce` is asked to do, and what is asked of others alike.
#ifndef PSRING_EXPERIMENTS_BENCH_OPTIONS_H_
#define PSRING_EXPERIMENTS_BENCH_OPTIONS_H_

#include <cstdint>
#include <span>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"

namespace psring {

// Sizes, and how often each is measured.
struct RoundOptions {
  // Sizes in bytes: the first, then each `factor` times the one before, up to `last`.
  std::string first_size = "4K";
  std::string last_size = "64M";
  int64_t factor = 4;

  int rounds = 5;
  int iterations = 20;          // Of a size in a round, at least.
  double least_seconds = 0.02;  // And for at least so long.
  int warm_up = 3;              // Operations before them, not timed.
  int checks = 1;               // Operations before those whose results are compared.
};

struct BenchOptions : RoundOptions {
  int ranks = 2;
  std::vector<std::string> transports = {"tcp"};
  std::vector<std::string> algorithms = {"ring"};
  std::vector<std::string> against;
  int connections = 1;
  bool spin = false;

  std::string json_path;  // Empty: none; the same below.
  std::string csv_path;
  std::string table_path;  // Of a table of AUTO's, whose measured rows are replaced.
};

// kInvalidArgument: a value of the list is not allowed, or is there twice.
absl::Status CheckChoices(absl::string_view flag, const std::vector<std::string>& values,
                          std::span<const absl::string_view> allowed);

// "4096", "64K", "1M", "2G" in bytes. kInvalidArgument: not of that form, or beyond 2^40.
absl::StatusOr<int64_t> ParseBytes(absl::string_view text);

// The sizes that the options name. kInvalidArgument: they make no sense together, or are
// not whole floats.
absl::StatusOr<std::vector<int64_t>> SizesOf(const RoundOptions& options);

}  // namespace psring

#endif  // PSRING_EXPERIMENTS_BENCH_OPTIONS_H_
