// The modes that do not wait for everybody, through the whole parameter-server path:
// against a serial reference where the order of contributions is known, by what the
// servers have counted where it is not.
#include <algorithm>
#include <cstdint>
#include <functional>
#include <memory>
#include <string>
#include <thread>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "common/arithmetic.h"
#include "common/mutex.h"
#include "common/optimizer.h"
#include "common/schedule.h"
#include "common/status_matchers.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "tests/exchange_test_util.h"
#include "tests/parameter_server_cluster.h"

namespace psring {
namespace {

constexpr int kWorkers = 3;
constexpr int kServers = 2;
constexpr int64_t kSteps = 5;
constexpr int64_t kContributions = kWorkers * kSteps;

// The servers' work, one contribution after the other.
class Reference {
 public:
  Reference(const BucketPlan& plan, const StaleUpdates& settings)
      : count_(Count(plan)), settings_(settings), optimizer_(TestOptimizer(), count_) {
    versions_.resize(1);
    for (int64_t i = 0; i < count_; ++i) versions_[0].push_back(InitialParameter(i));
  }

  int64_t version() const { return static_cast<int64_t>(versions_.size()) - 1; }
  const std::vector<float>& at(int64_t version) const { return versions_[version]; }

  std::vector<float> GradientOf(int rank, int64_t step, int64_t read) const {
    std::vector<float> gradient(count_);
    for (int64_t i = 0; i < count_; ++i) {
      gradient[i] = Gradient(rank, step, i, versions_[read][i]);
    }
    return gradient;
  }

  // One worker's gradient makes the next version, as bounded, async and fixed_delay do.
  void Apply(int rank, int64_t step, int64_t read) {
    std::vector<float> gradient = GradientOf(rank, step, read);
    const float lambda = settings_.delay_compensation();
    for (int64_t i = 0; i < count_ && lambda != 0; ++i) {
      gradient[i] +=
          lambda * gradient[i] * gradient[i] * (versions_.back()[i] - versions_[read][i]);
    }
    const double position = static_cast<double>(version()) / kWorkers;
    StepConstants constants =
        StepConstantsAt(TestOptimizer(), kSteps, position, version());
    const int64_t staleness = version() - read;
    if (settings_.scale() == StaleUpdates::MEAN) {
      constants.learning_rate *= MeanFactor(kWorkers);
    } else if (settings_.scale() == StaleUpdates::INVERSE_STALENESS) {
      constants.learning_rate *= MeanFactor(std::max<int64_t>(1, staleness));
    }
    Make(constants, gradient);
  }

  // The mean of two gradients makes the next version: of a round that two close.
  void ApplyMean(const std::vector<float>& a, const std::vector<float>& b) {
    std::vector<float> mean(count_);
    for (int64_t i = 0; i < count_; ++i) mean[i] = (a[i] + b[i]) * MeanFactor(2);
    const double position = static_cast<double>(version()) * 2 / kWorkers;
    Make(StepConstantsAt(TestOptimizer(), kSteps, position, version()), mean);
  }

 private:
  void Make(const StepConstants& constants, const std::vector<float>& gradient) {
    std::vector<float> next = versions_.back();
    optimizer_.Apply(constants, 0, next, gradient);
    versions_.push_back(std::move(next));
  }

  const int64_t count_;
  const StaleUpdates settings_;
  SliceOptimizer optimizer_;
  std::vector<std::vector<float>> versions_;
};

// A mode, over gRPC.
class ModesTest : public testing::TestWithParam<std::string> {
 protected:
  void Start(const std::string& mode) {
    mode_ = ModeOf(mode);
    cluster_ = std::make_unique<ParameterServerCluster>(
        ParameterServerCluster::Options{.kind = ChannelKind::kGrpc,
                                        .buckets = buckets_,
                                        .servers = kServers,
                                        .workers = kWorkers,
                                        .mode = mode_,
                                        .optimizer = TestOptimizer(),
                                        .steps = kSteps,
                                        .snapshot_interval = 1,
                                        .on_contribution = log_.callback()});
    workers_ = MakeWorkers(kWorkers, buckets_, *cluster_);
  }
  void StartAndBind(const std::string& mode) {
    Start(mode);
    RunWorkers(workers_, [](Worker& worker) { ASSERT_OK(worker.Bind()); });
  }
  Worker& worker(int rank) { return *workers_[rank]; }
  // The parameters that worker 0 reads, and that all slots had the same version.
  std::vector<float> SnapshotOf(int64_t step, int64_t version) {
    std::vector<float> parameters(Count(buckets_));
    const auto origin = worker(0).exchange.ReadSnapshot(step, parameters);
    EXPECT_OK(origin);
    if (origin.ok()) {
      EXPECT_EQ(origin->version_min, version);
      EXPECT_EQ(origin->version_max, version);
      EXPECT_GT(origin->time, absl::ZeroDuration());
    }
    return parameters;
  }

  const BucketPlan buckets_ = TestBuckets();
  ContributionLog log_;
  ParameterServerMode mode_;
  std::unique_ptr<ParameterServerCluster> cluster_;
  std::vector<std::unique_ptr<Worker>> workers_;
};

// Who makes the next step, over and over; whoever has finished is passed over.
const std::vector<int>& UnevenTurns() {
  static const std::vector<int>& turns = *new std::vector<int>{0, 1, 0, 2, 0, 1};
  return turns;
}

// Threads that take turns.
class Turns {
 public:
  explicit Turns(std::vector<int> order) : order_(std::move(order)), out_(kWorkers) {}

  void Await(int rank) {
    MutexLock lock(&mutex_);
    while (order_[next_ % order_.size()] != rank) changed_.Wait(&mutex_);
  }
  // `finished`: the rank takes no turn any more.
  void Pass(int rank, bool finished) {
    MutexLock lock(&mutex_);
    out_[rank] = finished;
    made_.push_back(rank);
    do {
      ++next_;
    } while (out_[order_[next_ % order_.size()]] &&
             std::find(out_.begin(), out_.end(), false) != out_.end());
    changed_.NotifyAll();
  }
  std::vector<int> made() {
    MutexLock lock(&mutex_);
    return made_;
  }

 private:
  const std::vector<int> order_;
  Mutex mutex_;
  CondVar changed_;
  size_t next_ ABSL_GUARDED_BY(mutex_) = 0;
  std::vector<bool> out_ ABSL_GUARDED_BY(mutex_);
  std::vector<int> made_ ABSL_GUARDED_BY(mutex_);  // Whose turns there were.
};

// Steps of a known order, in modes in which no step of it has to wait.
class ScriptedModesTest : public ModesTest {};

TEST_P(ScriptedModesTest, EqualsTheSerialReferenceAndTheFastMakeMore) {
  StartAndBind(GetParam());
  Reference reference(buckets_, mode_.stale_updates());
  Turns turns(UnevenTurns());
  std::vector<int64_t> read(kWorkers);
  RunWorkers(workers_, [&](Worker& worker) {
    bool finished = false;
    while (!finished) {
      turns.Await(worker.rank);
      reference.Apply(worker.rank, worker.steps, read[worker.rank]);
      read[worker.rank] = reference.version();
      finished = worker.MakeStep();
      EXPECT_EQ(Bits(worker.parameters), Bits(reference.at(reference.version())))
          << "rank " << worker.rank << " after step " << worker.steps - 1;
      turns.Pass(worker.rank, finished);
    }
  });
  EXPECT_EQ(turns.made().size(), kContributions);
  EXPECT_GT(worker(0).steps, kSteps);
  EXPECT_LT(worker(2).steps, kSteps);
  log_.ExpectEachCountedOnce(cluster_->plan(), kContributions, /*rounds=*/false);
  for (const Slot& slot : cluster_->plan().slots) {
    for (const auto& made : workers_) {
      EXPECT_EQ(log_.CountOf(slot.index, made->rank), made->steps);
    }
  }
  // After each `workers` contributions, whoever made them.
  for (int64_t step = 1; step <= kSteps; ++step) {
    EXPECT_EQ(Bits(SnapshotOf(step, kWorkers * step)),
              Bits(reference.at(kWorkers * step)));
  }
  const ExchangeTraffic traffic = worker(0).exchange.traffic();
  EXPECT_EQ(traffic.snapshot_in, kSteps * WorkerStepBytes(cluster_->plan()));
  EXPECT_EQ(traffic.payload_in, worker(0).steps * WorkerStepBytes(cluster_->plan()));
}

INSTANTIATE_TEST_SUITE_P(
    All, ScriptedModesTest,
    testing::Values("async {}", "async {} stale_updates { scale: ONE }",
                    "async {} stale_updates { scale: INVERSE_STALENESS }",
                    "async {} stale_updates { delay_compensation: 0.5 }",
                    "bounded { bound: 5 }"));

class FixedDelayTest : public ModesTest {};

TEST_P(FixedDelayTest, IsTheSerialReferenceInAnyOrderOfThreads) {
  Start(GetParam());
  const int64_t delay = mode_.fixed_delay().delay();
  Reference reference(buckets_, mode_.stale_updates());
  for (int64_t k = 0; k < kContributions; ++k) {
    reference.Apply(static_cast<int>(k % kWorkers), k / kWorkers,
                    std::max<int64_t>(0, k - delay));
  }
  RunWorkers(workers_, [&](Worker& worker) {
    // Where the delay is small, a worker waits for others' pushes before its first step.
    ASSERT_OK(worker.Bind());
    bool finished = false;
    while (!finished) {
      finished = worker.MakeStep();
      const int64_t next = worker.steps * kWorkers + worker.rank;
      const int64_t version =
          std::min(kContributions, std::max<int64_t>(0, next - delay));
      ASSERT_EQ(Bits(worker.parameters), Bits(reference.at(version)))
          << "rank " << worker.rank << " after step " << worker.steps - 1;
    }
    EXPECT_EQ(worker.steps, kSteps);
  });
  log_.ExpectEachCountedOnce(cluster_->plan(), kContributions, /*rounds=*/false);
  for (const ContributionRecord& record : log_.records()) {
    EXPECT_EQ(record.version() - record.version_read(),
              std::min(delay, record.version()));
  }
  EXPECT_EQ(Bits(SnapshotOf(kSteps, kContributions)), Bits(reference.at(kContributions)));
}

INSTANTIATE_TEST_SUITE_P(
    All, FixedDelayTest,
    testing::Values("fixed_delay { delay: 0 }", "fixed_delay { delay: 1 }",
                    "fixed_delay { delay: 2 } stale_updates { scale: ONE }",
                    // A worker is a step ahead of its own pushes.
                    "fixed_delay { delay: 4 } stale_updates { delay_compensation: 0.5 }",
                    "fixed_delay { delay: 100 }"));

// Threads as fast as they happen to be.
class FreeModesTest : public ModesTest {};

TEST_P(FreeModesTest, EndsWhenEveryContributionHasBeenMadeOnce) {
  StartAndBind(GetParam());
  RunWorkers(workers_, [](Worker& worker) {
    while (!worker.MakeStep()) {
    }
  });
  int64_t steps = 0;
  for (const auto& worker : workers_) steps += worker->steps;
  EXPECT_EQ(steps, kContributions);
  log_.ExpectEachCountedOnce(cluster_->plan(), kContributions, mode_.has_backup());
  EXPECT_EQ(cluster_->parked_pulls(), 0);
  for (const ContributionRecord& record : log_.records()) {
    if (mode_.has_bounded()) {
      EXPECT_LE(record.clock_lag(), mode_.bounded().bound());
    }
    if (record.outcome() == ContributionRecord::STALE) {
      EXPECT_GT(record.version() - record.version_read(),
                mode_.stale_updates().drop_above());
    } else if (record.outcome() == ContributionRecord::LATE) {
      EXPECT_TRUE(mode_.has_backup());
      EXPECT_GT(record.version(), record.step());
    }
  }
}

INSTANTIATE_TEST_SUITE_P(All, FreeModesTest,
                         testing::Values("backup { spares: 1 }", "backup { spares: 2 }",
                                         "bounded { bound: 0 }", "bounded { bound: 1 }",
                                         "async {}",
                                         "async {} stale_updates { drop_above: 1 }"));

// A worker that leaves before the others, as after a smaller share of the data.
class LeaverTest : public ModesTest {};

TEST_P(LeaverTest, WhoeverIsLeftGoesOnWithoutIt) {
  StartAndBind(GetParam());
  const auto slots = static_cast<int64_t>(cluster_->plan().slots.size());
  std::vector<std::thread> threads;
  for (int rank = 0; rank < 2; ++rank) {
    threads.emplace_back([this, rank] {
      while (!worker(rank).MakeStep()) {
      }
    });
  }
  // Both have made their first step, and wait for worker 2's.
  while (cluster_->parked_pulls() != 2 * slots) std::this_thread::yield();
  for (const auto& channel : cluster_->NewChannels(2)) {
    Mutex mutex;
    CondVar changed;
    bool left = false;
    channel->Leave([&](const absl::Status& status) {
      EXPECT_OK(status);
      MutexLock lock(&mutex);
      left = true;
      changed.NotifyAll();
    });
    MutexLock lock(&mutex);
    while (!left) changed.Wait(&mutex);
  }
  for (std::thread& thread : threads) thread.join();
  // In sync each makes its own share; else the others make the leaver's too, except what
  // it was allowed to begin and never did.
  const int64_t contributions = mode_.has_sync() ? 2 * kSteps : kContributions - 1;
  EXPECT_EQ(worker(0).steps + worker(1).steps, contributions);
  log_.ExpectEachCountedOnce(cluster_->plan(), contributions, mode_.has_sync());
  EXPECT_EQ(cluster_->parked_pulls(), 0);
}

INSTANTIATE_TEST_SUITE_P(All, LeaverTest,
                         testing::Values("sync {}", "bounded { bound: 0 }"));

// Two of three close a round.
class BackupTest : public ModesTest {
 protected:
  void SetUp() override { StartAndBind("backup { spares: 1 }"); }
  void Launch(int rank, int64_t step) { ASSERT_OK(worker(rank).LaunchAll(step)); }
  void Finish(int rank, int64_t step) {
    ASSERT_OK_AND_ASSIGN(report_, worker(rank).exchange.Finish(step));
  }
  std::vector<ContributionRecord> Dropped() const {
    std::vector<ContributionRecord> dropped = log_.records();
    std::erase_if(dropped, [](const ContributionRecord& record) {
      return record.outcome() == ContributionRecord::APPLIED;
    });
    return dropped;
  }

  Reference reference_{buckets_, StaleUpdates()};
  StepReport report_;
};

TEST_F(BackupTest, TheLateWorkerGoesOnWithTheRoundThatIsOpen) {
  for (int64_t round = 0; round < 2; ++round) {
    for (const int rank : {0, 1}) Launch(rank, round);
    for (const int rank : {0, 1}) Finish(rank, round);
    reference_.ApplyMean(reference_.GradientOf(0, round, round),
                         reference_.GradientOf(1, round, round));
    for (const int rank : {0, 1}) {
      EXPECT_EQ(Bits(worker(rank).parameters), Bits(reference_.at(round + 1)));
    }
  }
  // Worker 2 has computed from version 0, and nobody has waited for it: its push is
  // dropped, and its pull answered at once although no one else does anything.
  Launch(2, 0);
  Finish(2, 0);
  EXPECT_EQ(Bits(worker(2).parameters), Bits(reference_.at(2)));
  EXPECT_EQ(report_.peer_late, absl::ZeroDuration());
  const auto dropped = Dropped();
  EXPECT_EQ(dropped.size(), cluster_->plan().slots.size());
  for (const ContributionRecord& record : dropped) {
    EXPECT_EQ(record.outcome(), ContributionRecord::LATE);
    EXPECT_EQ(record.rank(), 2);
    EXPECT_EQ(record.step(), 0);
    EXPECT_EQ(record.version_read(), 0);
    EXPECT_EQ(record.version(), 2);
  }
  // Its second step is of round 2, which it now closes with worker 0.
  Launch(2, 1);
  Launch(0, 2);
  for (const auto& [rank, step] : {std::pair(2, 1), std::pair(0, 2)}) {
    Finish(rank, step);
  }
  reference_.ApplyMean(reference_.GradientOf(0, 2, 2), reference_.GradientOf(2, 1, 2));
  EXPECT_EQ(Bits(worker(0).parameters), Bits(reference_.at(3)));
  EXPECT_EQ(Bits(worker(2).parameters), Bits(reference_.at(3)));
  Launch(1, 2);
  Finish(1, 2);
  EXPECT_EQ(Bits(worker(1).parameters), Bits(reference_.at(3)));
  EXPECT_EQ(Dropped().size(), 2 * cluster_->plan().slots.size());
}

TEST_F(BackupTest, AWorkerMayBeLateInOneSlotAndInTimeInAnother) {
  Launch(0, 0);
  ASSERT_OK(worker(1).Launch(0, buckets_.buckets[0]));
  // The slots of bucket 0 have closed before it comes, all others with it.
  while (log_.records().size() < 2 * cluster_->plan().of_bucket[0].size()) {
    std::this_thread::yield();
  }
  Launch(2, 0);
  Finish(2, 0);
  Finish(0, 0);
  for (const ContributionRecord& record : Dropped()) {
    EXPECT_EQ(record.rank(), 2);
    EXPECT_EQ(cluster_->plan().slots[record.slot()].bucket, 0);
  }
  EXPECT_EQ(Dropped().size(), cluster_->plan().of_bucket[0].size());
  // All of them are at version 1, and go on from it.
  EXPECT_EQ(Bits(worker(0).parameters), Bits(worker(2).parameters));
  Launch(0, 1);
  Launch(2, 1);
  Finish(0, 1);
  EXPECT_EQ(report_.version_skew, 0);
  Finish(2, 1);
  EXPECT_EQ(Bits(worker(0).parameters), Bits(worker(2).parameters));
}

using AsyncTest = ModesTest;

TEST_F(AsyncTest, SlotsOfOneStepMayBeOfDifferentVersions) {
  StartAndBind("async {}");
  ASSERT_OK(worker(0).Launch(0, buckets_.buckets[0]));
  while (log_.records().size() < cluster_->plan().of_bucket[0].size()) {
    std::this_thread::yield();
  }
  for (int64_t step = 0; step < 2; ++step) {
    ASSERT_OK(worker(1).LaunchAll(step));
    ASSERT_OK_AND_ASSIGN(const StepReport report, worker(1).exchange.Finish(step));
    // Bucket 0 is one ahead from the answers to the first step on.
    EXPECT_EQ(report.version_skew, step);
  }
}

}  // namespace
}  // namespace psring
