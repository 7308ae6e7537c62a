#include "experiments/bench/push_pull/result.h"

#include <algorithm>
#include <utility>

#include "experiments/bench/push_pull/plan.h"
#include "glog/logging.h"

namespace psring {
namespace {

constexpr int64_t kSmall = 4 << 10;
constexpr int64_t kLarge = 4 << 20;
constexpr int64_t kVeryLarge = 64 << 20;

struct Pair {
  const char* contestant;
  const char* reference;
  // Of sizes up to kSmall with one worker: of several, servers may wait for the last.
  double most_time;
  // Of sizes from there on.
  int64_t large;
  double least_goodput;
};
constexpr Pair kPairs[] = {{"psring", "grpc", 1.3, kLarge, 0.8},
                           {"grpc", "tcp", 4, kVeryLarge, 0.55}};

// Of one iteration.
int64_t ProcessorOf(const BenchRound& round) {
  const auto iterations = static_cast<int64_t>(round.times_ns.size());
  return std::max<int64_t>(1, round.processor_ns / iterations);
}

PushPullRow MakeRow(int64_t size_bytes, const PushPullJob& job,
                    const std::string& contestant,
                    const std::vector<BenchRound>& rounds) {
  const PushPullPlan plan = PlanPushPull(job, size_bytes / int64_t{sizeof(float)});
  const auto pushed = static_cast<double>(plan.pushed_bytes());
  const auto pulled = static_cast<double>(plan.answered_bytes());
  std::vector<int64_t> times;
  int64_t processor_ns = 0;
  PushPullRow row{.size_bytes = size_bytes, .contestant = contestant};
  for (const BenchRound& round : rounds) {
    times.insert(times.end(), round.times_ns.begin(), round.times_ns.end());
    processor_ns += round.processor_ns;
    if (round.wrong) row.wrong = row.wrong.value_or(0) + *round.wrong;
  }
  const auto median_ns = static_cast<double>(Median(times));
  row.min_us = static_cast<double>(*std::min_element(times.begin(), times.end())) / 1e3;
  row.median_us = median_ns / 1e3;
  row.p99_us = static_cast<double>(Percentile(times, 99)) / 1e3;
  row.out = pushed / median_ns;
  row.in = pulled / median_ns;
  row.server_in_and_out = (row.out + row.in) * job.workers() / job.servers();
  row.processor_seconds_per_gb =
      static_cast<double>(processor_ns) /
      ((pushed + pulled) * job.workers() * static_cast<double>(times.size()));
  return row;
}

}  // namespace

std::vector<PushPullRow> MakePushPullRows(
    int64_t size_bytes, const PushPullJob& job,
    const std::vector<std::string>& contestants,
    const std::vector<std::vector<BenchRound>>& rounds) {
  CHECK_EQ(contestants.size(), rounds.size());
  std::vector<PushPullRow> rows;
  for (size_t c = 0; c < contestants.size(); ++c) {
    rows.push_back(MakeRow(size_bytes, job, contestants[c], rounds[c]));
  }
  return rows;
}

std::vector<PushPullRatio> MakePushPullRatios(
    int64_t size_bytes, int workers, const std::vector<std::string>& contestants,
    const std::vector<std::vector<BenchRound>>& rounds) {
  CHECK_EQ(contestants.size(), rounds.size());
  // Null: it does not take part.
  const auto rounds_of = [&](const char* name) -> const std::vector<BenchRound>* {
    const auto found = std::find(contestants.begin(), contestants.end(), name);
    return found == contestants.end() ? nullptr : &rounds[found - contestants.begin()];
  };
  std::vector<PushPullRatio> ratios;
  for (const Pair& pair : kPairs) {
    const auto* const own = rounds_of(pair.contestant);
    const auto* const other = rounds_of(pair.reference);
    if (own == nullptr || other == nullptr) continue;
    std::vector<int64_t> own_times, other_times, own_processor, other_processor;
    for (size_t round = 0; round < own->size(); ++round) {
      own_times.push_back(Median((*own)[round].times_ns));
      other_times.push_back(Median((*other)[round].times_ns));
      own_processor.push_back(ProcessorOf((*own)[round]));
      other_processor.push_back(ProcessorOf((*other)[round]));
    }
    PushPullRatio ratio{.size_bytes = size_bytes,
                        .contestant = pair.contestant,
                        .reference = pair.reference,
                        .time = MedianRatio(own_times, other_times),
                        .goodput = MedianRatio(other_times, own_times),
                        .processor = MedianRatio(own_processor, other_processor)};
    if (size_bytes <= kSmall && workers == 1) ratio.most_time = pair.most_time;
    if (size_bytes >= pair.large) ratio.least_goodput = pair.least_goodput;
    ratios.push_back(std::move(ratio));
  }
  return ratios;
}

}  // namespace psring
