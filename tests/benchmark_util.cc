#include "tests/benchmark_util.h"

#include <stdlib.h>
#include <time.h>

#include <algorithm>
#include <chrono>
#include <iostream>
#include <thread>

#include "CLI/CLI.hpp"
#include "absl/strings/str_format.h"
#include "common/allocator.h"
#include "glog/logging.h"
#include "grpcpp/grpcpp.h"

namespace psring {
namespace {

using Clock = std::chrono::steady_clock;

double Median(std::vector<double> values) {
  CHECK(!values.empty());
  std::nth_element(values.begin(), values.begin() + values.size() / 2, values.end());
  return values[values.size() / 2];
}

// Of all threads of a process since it started; 0 is this process.
double ProcessorSeconds(pid_t process) {
  clockid_t clock;
  CHECK_EQ(clock_getcpuclockid(process, &clock), 0);
  timespec time;
  PCHECK(clock_gettime(clock, &time) == 0);
  return static_cast<double>(time.tv_sec) + 1e-9 * static_cast<double>(time.tv_nsec);
}

void RunInTurn(const BenchmarkSettings& settings, int rounds,
               const std::vector<Way>& ways) {
  std::vector<std::vector<MeasuredSteps>> measured(ways.size());
  for (int round = 0; round < rounds; ++round) {
    for (size_t way = 0; way < ways.size(); ++way) {
      measured[way].push_back(ways[way].run());
    }
  }
  const double gigabytes = 2e-9 * static_cast<double>(settings.workers) *
                           static_cast<double>(settings.slots) *
                           static_cast<double>(settings.slot_bytes);
  std::cout << absl::StrFormat("%-32s %9s %7s %9s %7s %7s\n", "way", "step ms", "GB/s",
                               "cpu s/GB", "x time", "x cpu");
  for (size_t way = 0; way < ways.size(); ++way) {
    std::vector<double> seconds, processor, times, prices;
    for (int round = 0; round < rounds; ++round) {
      const MeasuredSteps& own = measured[way][round];
      const MeasuredSteps& first = measured[0][round];
      seconds.push_back(own.step_seconds);
      processor.push_back(own.processor_seconds / gigabytes);
      times.push_back(own.step_seconds / first.step_seconds);
      prices.push_back(own.processor_seconds / first.processor_seconds);
    }
    std::cout << absl::StrFormat("%-32s %9.3f %7.2f %9.2f %7.2f %7.2f\n", ways[way].name,
                                 1e3 * Median(seconds), gigabytes / Median(seconds),
                                 Median(processor), Median(times), Median(prices));
  }
}

}  // namespace

MeasuredSteps MeasureSteps(const BenchmarkSettings& settings,
                           const std::function<void(int rank, int n)>& step,
                           std::optional<pid_t> server_process) {
  const auto processor_seconds = [&] {
    return ProcessorSeconds(0) +
           (server_process.has_value() ? ProcessorSeconds(*server_process) : 0);
  };
  std::vector<double> seconds;
  double processor = 0;
  std::vector<std::thread> threads;
  for (int rank = 0; rank < settings.workers; ++rank) {
    threads.emplace_back([&, rank] {
      for (int n = 0; n < settings.warm_up + settings.steps; ++n) {
        if (rank == 0 && n == settings.warm_up) processor = processor_seconds();
        const auto start = Clock::now();
        step(rank, n);
        if (rank != 0 || n < settings.warm_up) continue;
        seconds.push_back(std::chrono::duration<double>(Clock::now() - start).count());
      }
      if (rank == 0) processor = processor_seconds() - processor;
    });
  }
  for (std::thread& thread : threads) thread.join();
  return {.step_seconds = Median(seconds),
          .processor_seconds = processor / settings.steps};
}

int RunBenchmark(
    int argc, char** argv, const std::string& description,
    const std::function<std::vector<Way>(const BenchmarkSettings&)>& make_ways) {
  google::InitGoogleLogging(argv[0]);
  BenchmarkSettings settings;
  int rounds = 5;
  bool default_allocator = false;
  CLI::App app(description);
  app.add_option("--workers", settings.workers, "Workers, as threads")
      ->capture_default_str()
      ->check(CLI::Range(1, 64));
  app.add_option("--slots", settings.slots, "Slots in flight per worker")
      ->capture_default_str()
      ->check(CLI::Range(1, 4096));
  app.add_option("--slot-bytes", settings.slot_bytes, "Bytes of a slot")
      ->capture_default_str()
      ->check(CLI::Range(4, 256 << 20));
  app.add_option("--steps", settings.steps, "Measured steps of a way in a round")
      ->capture_default_str()
      ->check(CLI::PositiveNumber);
  app.add_option("--rounds", rounds, "Rounds, each of all ways in turn")
      ->capture_default_str()
      ->check(CLI::PositiveNumber);
  app.add_flag("--default-allocator", default_allocator, "Do not tune the allocator");
  CLI11_PARSE(app, argc, argv);
  if (!default_allocator) TuneAllocator();
  double before = 0, after = 0;
  PCHECK(getloadavg(&before, 1) == 1);
  std::cout << absl::StrFormat(
                   "%d workers, %d slots of %d bytes, %d rounds of %d steps, %d cores, "
                   "gRPC %s, allocator %s\n",
                   settings.workers, settings.slots, settings.slot_bytes, rounds,
                   settings.steps, std::thread::hardware_concurrency(), grpc::Version(),
                   default_allocator ? "as it is" : "tuned")
            << std::flush;
  RunInTurn(settings, rounds, make_ways(settings));
  PCHECK(getloadavg(&after, 1) == 1);
  std::cout << absl::StrFormat("load %.1f before, %.1f after\n", before, after);
  return 0;
}

}  // namespace psring
