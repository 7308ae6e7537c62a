// From measured times to the rows of `psring bench push-pull`. Pure; each column is
// defined here.
#ifndef PSRING_EXPERIMENTS_BENCH_PUSH_PULL_RESULT_H_
#define PSRING_EXPERIMENTS_BENCH_PUSH_PULL_RESULT_H_

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "experiments/bench/result.h"
#include "proto/bench.pb.h"

namespace psring {

// All times are of single operations, over the iterations of all rounds; an iteration
// takes as long as on its slowest worker. Bytes are payload: what tensors take on the
// wire. 10^9 bytes per second.
struct PushPullRow {
  int64_t size_bytes = 0;  // Of each worker's floats: M.
  std::string contestant;
  double min_us = 0;
  double median_us = 0;
  double p99_us = 0;
  double out = 0;  // Of a worker: what it pushes / median time.
  double in = 0;   // Of a worker: M / median time.
  // Of a server: what all workers push and pull / servers / median time.
  double server_in_and_out = 0;
  // Of all its processes during the timed iterations, for each 10^9 bytes that a worker
  // has pushed or pulled.
  double processor_seconds_per_gb = 0;
  // Elements with a wrong result, over all checked operations and workers.
  std::optional<int64_t> wrong = {};
};

// The rows of one size, in the order of the contestants. rounds[c] are contestant c's, as
// many for each, none without times.
std::vector<PushPullRow> MakePushPullRows(
    int64_t size_bytes, const PushPullJob& job,
    const std::vector<std::string>& contestants,
    const std::vector<std::vector<BenchRound>>& rounds);

// One contestant beside another with one size: medians over the rounds of the quotient in
// that round, of both medians (time), their inverse (goodput), and of processor time of
// an iteration.
struct PushPullRatio {
  int64_t size_bytes = 0;
  std::string contestant;
  std::string reference;
  double time = 0;
  double goodput = 0;
  double processor = 0;
  // What is wanted of it (server/README.md); nothing where that is nothing.
  std::optional<double> most_time = {};
  std::optional<double> least_goodput = {};
};

// Of psring and gRPC, and of gRPC and sockets; as above.
std::vector<PushPullRatio> MakePushPullRatios(
    int64_t size_bytes, int workers, const std::vector<std::string>& contestants,
    const std::vector<std::vector<BenchRound>>& rounds);

}  // namespace psring

#endif  // PSRING_EXPERIMENTS_BENCH_PUSH_PULL_RESULT_H_
