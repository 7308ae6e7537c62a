// Every contribution counts once, in every mode, whatever happens to its message: over
// gRPC, with one worker of three behind a faulty network.
#include <cstdint>
#include <latch>
#include <memory>
#include <string>
#include <tuple>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "common/status_matchers.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "tests/exchange_test_util.h"
#include "tests/faulty_parameter_channel.h"
#include "tests/parameter_server_cluster.h"

namespace psring {
namespace {

constexpr int kWorkers = 3;
constexpr int kServers = 2;
constexpr int64_t kSteps = 5;
constexpr int64_t kContributions = kWorkers * kSteps;
constexpr int kVictim = 0;
constexpr int64_t kFaultyExchange = 1;

struct Mode {
  const char* name;
  const char* text;
  bool rounds;
  // The result does not depend on the order in which threads come.
  bool deterministic;
};
const Mode kModes[] = {
    {"Sync", "sync {}", true, true},
    {"BackupWithoutSpares", "backup { spares: 0 }", true, true},
    {"Backup", "backup { spares: 1 }", true, false},
    {"BoundedByZero", "bounded { bound: 0 }", false, false},
    {"Bounded", "bounded { bound: 2 }", false, false},
    {"Async", "async {}", false, false},
    {"AsyncWithALimit", "async {} stale_updates { drop_above: 1 }", false, false},
    {"AsyncCompensated", "async {} stale_updates { delay_compensation: 0.5 }", false,
     false},
    {"FixedDelay", "fixed_delay { delay: 0 }", false, true},
    {"FixedDelayCompensated",
     "fixed_delay { delay: 4 } stale_updates { delay_compensation: 0.5 }", false, true},
};

struct Fault {
  const char* name;
  ExchangeFault fault;
};
const Fault kFaults[] = {
    {"SentTwice", ExchangeFault::kSentTwice},
    {"AnswerLost", ExchangeFault::kAnswerLost},
    {"OneBeforeComesAgain", ExchangeFault::kOneBeforeComesAgain},
    {"FromAReplacement", ExchangeFault::kFromAReplacement},
};

// Trains, and checks what the servers have counted. Returns the parameters after each
// step of all workers.
std::vector<std::vector<uint32_t>> Train(const Mode& mode, ExchangeFault fault) {
  const BucketPlan buckets = TestBuckets();
  ContributionLog log;
  ParameterServerCluster cluster({.kind = ChannelKind::kGrpc,
                                  .buckets = buckets,
                                  .servers = kServers,
                                  .workers = kWorkers,
                                  .mode = ModeOf(mode.text),
                                  .optimizer = TestOptimizer(),
                                  .steps = kSteps,
                                  .snapshot_interval = 1,
                                  .on_contribution = log.callback()});
  std::vector<std::unique_ptr<Worker>> workers;
  for (int rank = 0; rank < kWorkers; ++rank) {
    std::vector<std::unique_ptr<ParameterChannel>> channels = cluster.NewChannels(rank);
    for (int server = 0; server < kServers && rank == kVictim; ++server) {
      channels[server] = std::make_unique<FaultyParameterChannel>(
          std::move(channels[server]), fault, kFaultyExchange, [&cluster, rank, server] {
            return cluster.NewChannel(rank, server, /*incarnation=*/1);
          });
    }
    workers.push_back(
        std::make_unique<Worker>(rank, buckets, cluster.plan(), std::move(channels)));
  }
  // Where a fast worker makes more, all begin together, so that there is work for each.
  // (Elsewhere binding may need another's step, and each has its share anyway.) Then the
  // others wait until the victim has launched the step with the fault, not until it has
  // made it, for which it may need them.
  std::latch bound(kWorkers), happened(1);
  RunWorkers(workers, [&](Worker& worker) {
    EXPECT_OK(worker.Bind());
    if (!mode.deterministic) bound.arrive_and_wait();
    const auto launched = [&] {
      if (worker.rank == kVictim && worker.steps == kFaultyExchange)
        happened.count_down();
    };
    while (!worker.MakeStep(launched)) {
      if (worker.rank != kVictim && worker.steps == kFaultyExchange + 1) happened.wait();
    }
  });
  int64_t steps = 0;
  for (const auto& worker : workers) steps += worker->steps;
  EXPECT_EQ(steps, kContributions);
  log.ExpectEachCountedOnce(cluster.plan(), kContributions, mode.rounds);
  for (const Slot& slot : cluster.plan().slots) {
    for (const auto& worker : workers) {
      EXPECT_EQ(log.CountOf(slot.index, worker->rank), worker->steps);
    }
  }
  std::vector<std::vector<uint32_t>> after;
  for (int64_t step = 1; step <= kSteps; ++step) {
    std::vector<float> parameters(Count(buckets));
    EXPECT_OK(workers[0]->exchange.ReadSnapshot(step, parameters));
    after.push_back(Bits(parameters));
  }
  return after;
}

using Param = std::tuple<Mode, Fault>;

class ExactlyOnceTest : public testing::TestWithParam<Param> {};

TEST_P(ExactlyOnceTest, AFaultChangesNothing) {
  const auto& [mode, fault] = GetParam();
  const auto after = Train(mode, fault.fault);
  if (mode.deterministic) {
    EXPECT_EQ(after, Train(mode, ExchangeFault::kNone));
  }
}

std::string ParamName(const testing::TestParamInfo<Param>& info) {
  const auto& [mode, fault] = info.param;
  return absl::StrCat(mode.name, fault.name);
}

// All modes with all faults.
std::vector<Param> Params() {
  std::vector<Param> params;
  for (const Mode& mode : kModes) {
    for (const Fault& fault : kFaults) params.emplace_back(mode, fault);
  }
  return params;
}

INSTANTIATE_TEST_SUITE_P(All, ExactlyOnceTest, testing::ValuesIn(Params()), ParamName);

}  // namespace
}  // namespace psring
