// What the benchmarks of the wire have in common. Every round runs each way once, in
// turn, so that whatever else the machine does meets all alike; the table has medians
// over rounds, and ratios are medians of the ratios within a round.
#ifndef PSRING_TESTS_BENCHMARK_UTIL_H_
#define PSRING_TESTS_BENCHMARK_UTIL_H_

#include <sys/types.h>

#include <cstdint>
#include <functional>
#include <optional>
#include <string>
#include <vector>

#include "common/slot_plan.h"

namespace psring {

// A step moves every slot of every worker to the server and back.
struct BenchmarkSettings {
  int workers = 2;
  int slots = 8;
  int64_t slot_bytes = kMaxSlotBytes;
  int steps = 20;
  int warm_up = 3;

  int64_t slot_count() const { return slot_bytes / int64_t{sizeof(float)}; }
};

// Of one way in one round.
struct MeasuredSteps {
  double step_seconds = 0;       // Of the median step of worker 0.
  double processor_seconds = 0;  // Of all that take part, per step.
};

struct Way {
  std::string name;
  std::function<MeasuredSteps()> run;
};

// Runs warm-up and steps in a thread per worker; step(rank, n) is one step. The processor
// time is that of this process and of the server's, where it is another.
MeasuredSteps MeasureSteps(const BenchmarkSettings& settings,
                           const std::function<void(int rank, int n)>& step,
                           std::optional<pid_t> server_process = std::nullopt);

// The program: reads the flags, runs the ways and prints the table, whose ratios are to
// the first way.
int RunBenchmark(
    int argc, char** argv, const std::string& description,
    const std::function<std::vector<Way>(const BenchmarkSettings&)>& make_ways);

}  // namespace psring

#endif  // PSRING_TESTS_BENCHMARK_UTIL_H_
