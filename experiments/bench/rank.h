// A rank under test: what the programs of all contestants have in common, so that psring
// and its peers are measured by the same loop.
#ifndef PSRING_EXPERIMENTS_BENCH_RANK_H_
#define PSRING_EXPERIMENTS_BENCH_RANK_H_

#include <cstdint>
#include <span>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"

namespace psring {

// One rank's end of an all-reduce. One thread; the calls come in the order below, from
// Prepare on again and again.
class BenchRank {
 public:
  virtual ~BenchRank() = default;

  // Where the other ranks reach this one; empty where they find each other by themselves.
  virtual std::string address() const { return ""; }
  // Of the library under test; empty for psring's own.
  virtual std::string version() const { return ""; }

  // Joins the others. `addresses` are what each rank's address() gave, by rank.
  virtual absl::Status Connect(const std::vector<std::string>& addresses) = 0;

  // The `count` floats that AllReduce works on until the next Prepare; they are this
  // rank's, and what lies in them is undefined.
  virtual absl::StatusOr<std::span<float>> Prepare(int64_t count) = 0;

  // Replaces the prepared floats by their sums over all ranks.
  virtual absl::Status AllReduce() = 0;

  // The value of an element after a checked operation (inputs.h), which is the sum for
  // everything that sums.
  virtual float Expected(int ranks, int64_t operation, int64_t index) const;
};

// Connects to the launcher's channel at `control` and does what it says until it closes
// the channel. Returns OK then, and where a command failed, once the launcher knows, the
// reason.
absl::Status ServeBench(const std::string& control, int rank, int ranks,
                        BenchRank& subject);

}  // namespace psring

#endif  // PSRING_EXPERIMENTS_BENCH_RANK_H_
