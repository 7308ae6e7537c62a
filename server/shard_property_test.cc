// Thousands of random schedules, in an order that a seed decides instead of time: workers
// of any speed, every mode, several slots. What must hold in all of them is checked after
// every step.
#include <algorithm>
#include <cstdint>
#include <deque>
#include <map>
#include <memory>
#include <random>
#include <set>
#include <string>
#include <tuple>
#include <vector>

#include "absl/strings/str_cat.h"
#include "common/status_matchers.h"
#include "gtest/gtest.h"
#include "server/parameter_shard.h"
#include "server/shard_test_util.h"

namespace psring {
namespace {

// Drives workers one event at a time: a worker that has all its pulls pushes its slots
// and pulls them again, each of these is an event of its own, and the random number says
// whose event comes next.
class Schedule {
 public:
  Schedule(ParameterShard* shard, int workers, int slots, uint64_t seed)
      : shard_(*shard), slots_(slots), random_(seed), workers_(workers) {
    // Very different speeds.
    for (Worker& worker : workers_) worker.weight = 1 + random_() % 20;
    for (int rank = 0; rank < workers; ++rank) {
      workers_[rank].version.resize(slots);
      workers_[rank].step.resize(slots);
      PullAll(rank, std::vector<int64_t>(slots, 0));
      for (int slot = 0; slot < slots; ++slot) Do(rank);
    }
  }

  // Until every worker has finished. False: nobody can move, and not all have.
  bool Run() {
    while (true) {
      std::vector<double> weights;
      for (const Worker& worker : workers_) {
        weights.push_back(worker.todo.empty() ? 0 : worker.weight);
      }
      if (std::ranges::all_of(weights, [](double weight) { return weight == 0; })) break;
      const auto rank = static_cast<int>(
          std::discrete_distribution<int>(weights.begin(), weights.end())(random_));
      Do(rank);
    }
    return std::ranges::all_of(workers_, [](const Worker& w) { return w.left; });
  }

  int64_t steps(int rank) const { return workers_[rank].steps; }
  int64_t most_lag() const { return most_lag_; }

 private:
  struct Event {
    enum { kPush, kPull, kLeave } what;
    int slot = 0;
    int64_t step = 0;  // Of a pull.
  };
  struct Worker {
    uint64_t weight = 1;
    std::deque<Event> todo;
    std::vector<int64_t> version, step;  // By slot, of the last answer.
    int awaited = 0;                     // Pulls without an answer.
    bool finished = false;
    bool left = false;
    int64_t steps = 0;
  };

  void PullAll(int rank, const std::vector<int64_t>& steps) {
    Worker& worker = workers_[rank];
    worker.awaited = slots_;
    for (int slot = 0; slot < slots_; ++slot) {
      worker.todo.push_back({.what = Event::kPull, .slot = slot, .step = steps[slot]});
    }
  }

  void Do(int rank) {
    Worker& worker = workers_[rank];
    const Event event = worker.todo.front();
    worker.todo.pop_front();
    switch (event.what) {
      case Event::kPush:
        ASSERT_OK(shard_.Push({.rank = rank,
                               .step = worker.step[event.slot],
                               .slot = event.slot,
                               .version = worker.version[event.slot]},
                              Own({1, 1})));
        break;
      case Event::kPull:
        shard_.Pull({.rank = rank, .step = event.step, .slot = event.slot},
                    [this, rank, slot = event.slot](absl::StatusOr<PullAnswer> answer) {
                      // Not if the schedule is stuck, which Run reports.
                      if (answer.ok()) Answered(rank, slot, *answer);
                    });
        break;
      case Event::kLeave:
        ASSERT_OK(shard_.Leave(rank));
        worker.left = true;
        break;
    }
  }

  void Answered(int rank, int slot, const PullAnswer& answer) {
    Worker& worker = workers_[rank];
    worker.version[slot] = answer.parameters.version;
    worker.step[slot] = answer.step;
    if (slot == 0) worker.finished = answer.finished;
    if (--worker.awaited > 0) return;
    if (worker.finished) {
      worker.todo.push_back({.what = Event::kLeave});
      return;
    }
    ++worker.steps;
    // How far the slowest that is still at work is behind.
    int64_t slowest = worker.steps;
    for (const Worker& other : workers_) {
      if (!other.finished) slowest = std::min(slowest, other.steps);
    }
    most_lag_ = std::max(most_lag_, worker.steps - slowest);
    std::vector<int64_t> next;
    for (int s = 0; s < slots_; ++s) {
      worker.todo.push_back({.what = Event::kPush, .slot = s});
      next.push_back(worker.step[s] + 1);
    }
    PullAll(rank, next);
  }

  ParameterShard& shard_;
  const int slots_;
  std::mt19937_64 random_;
  std::vector<Worker> workers_;
  int64_t most_lag_ = 0;
};

struct Mode {
  const char* settings;
  int workers;
};

class ShardPropertyTest : public ShardTest, public testing::WithParamInterface<Mode> {};

TEST_P(ShardPropertyTest, EveryScheduleEndsAndKeepsThePromise) {
  constexpr int kSlots = 2;
  const auto& [settings, workers] = GetParam();
  steps_ = 12;
  for (uint64_t seed = 0; seed < 400; ++seed) {
    SCOPED_TRACE(absl::StrCat("seed ", seed));
    contributions_.clear();
    Make(workers, settings, /*count=*/2);
    for (int slot = 0; slot < kSlots; ++slot) {
      ASSERT_OK(shard_->Initialize(slot, std::vector<float>{0, 0}));
    }
    ParameterServerMode mode;
    ASSERT_TRUE(google::protobuf::TextFormat::ParseFromString(settings, &mode));
    ASSERT_OK_AND_ASSIGN(const auto policy, MakePolicy(mode, workers));
    const ConsistencyPromise promise = policy->promise();

    Schedule schedule(shard_.get(), workers, kSlots, seed);
    ASSERT_TRUE(schedule.Run()) << "stuck: " << shard_->Awaited();

    std::set<std::tuple<int, int, int64_t>> counted;   // Slot, rank, step.
    std::map<int, std::map<int64_t, int>> of_version;  // Of each slot.
    for (const ContributionRecord& c : contributions_) {
      EXPECT_TRUE(counted.insert({c.slot(), c.rank(), c.step()}).second) << "twice";
      if (promise.clock_lag) {
        EXPECT_LE(c.clock_lag(), *promise.clock_lag);
      }
      if (c.outcome() != ContributionRecord::APPLIED) {
        EXPECT_TRUE(promise.drops);
        continue;
      }
      ++of_version[c.slot()][c.version()];
      if (promise.staleness) {
        EXPECT_EQ(c.version() - c.version_read(),
                  std::min(c.version(), *promise.staleness));
      }
    }
    EXPECT_EQ(counted.size(), kSlots * workers * steps_) << "lost";
    int64_t total = 0;
    for (int rank = 0; rank < workers; ++rank) {
      total += schedule.steps(rank);
      if (promise.even) {
        EXPECT_EQ(schedule.steps(rank), steps_);
      }
      EXPECT_GT(schedule.steps(rank), 0) << "starved";
    }
    EXPECT_EQ(total, workers * steps_);
    if (promise.clock_lag) {
      EXPECT_LE(schedule.most_lag(), *promise.clock_lag + 1);
    }
    for (int slot = 0; slot < kSlots; ++slot) {
      int64_t version = 0;
      for (const auto& [applied_onto, contributions] : of_version[slot]) {
        EXPECT_EQ(applied_onto, version++) << "a version without a contribution";
        EXPECT_LE(contributions, promise.contributions_per_update);
      }
    }
  }
}

INSTANTIATE_TEST_SUITE_P(
    Modes, ShardPropertyTest,
    testing::Values(
        Mode{"sync {}", 1}, Mode{"sync {}", 4}, Mode{"backup { spares: 1 }", 3},
        Mode{"backup { spares: 1 }", 5}, Mode{"backup { spares: 2 }", 5},
        Mode{"backup { spares: 3 }", 4}, Mode{"bounded { bound: 0 }", 4},
        Mode{"bounded { bound: 1 }", 4}, Mode{"bounded { bound: 4 }", 5},
        Mode{"async {}", 4}, Mode{"async {} stale_updates { drop_above: 2 }", 4},
        Mode{"fixed_delay { delay: 0 }", 3}, Mode{"fixed_delay { delay: 2 }", 3},
        Mode{"fixed_delay { delay: 3 }", 3}, Mode{"fixed_delay { delay: 7 }", 3}),
    [](const testing::TestParamInfo<Mode>& info) {
      std::string name = absl::StrCat(info.param.settings, info.param.workers);
      std::erase_if(name, [](unsigned char c) { return std::isalnum(c) == 0; });
      return name;
    });

}  // namespace
}  // namespace psring
