// In which order a ring exchanges buckets and runs their optimizers.
#include <cstdint>
#include <memory>
#include <optional>
#include <set>
#include <string>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "absl/time/time.h"
#include "common/computed_step_constants.h"
#include "common/layout.h"
#include "common/mutex.h"
#include "common/status_macros.h"
#include "common/status_matchers.h"
#include "common/step_constants.h"
#include "common/time_source.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "proto/experiment.pb.h"
#include "ring/collectives.h"
#include "ring/ring_exchange.h"
#include "ring/ring_test_util.h"
#include "ring/small_buckets_test_util.h"

namespace psring {
namespace {

using testing::Each;
using testing::ElementsAre;

constexpr int64_t kSteps = 3;

// What a rank does, in order; can be waited for.
class Log {
 public:
  void Add(std::string entry) {
    MutexLock lock(&mutex_);
    entries_.push_back(std::move(entry));
    changed_.NotifyAll();
  }
  void Await(size_t entries) {
    MutexLock lock(&mutex_);
    while (entries_.size() < entries) changed_.Wait(&mutex_);
  }
  std::vector<std::string> entries() {
    MutexLock lock(&mutex_);
    return entries_;
  }

 private:
  Mutex mutex_;
  CondVar changed_;
  std::vector<std::string> entries_ ABSL_GUARDED_BY(mutex_);
};

// One rank's, which has nothing to sum. Sums of buckets that are held wait.
class LoggedCollectives final : public Collectives {
 public:
  explicit LoggedCollectives(Log* log) : log_(log) {}

  void Hold(int bucket) {
    MutexLock lock(&mutex_);
    held_.insert(bucket);
  }
  void Release(int bucket) {
    MutexLock lock(&mutex_);
    held_.erase(bucket);
    changed_.NotifyAll();
  }

  absl::Status AllReduce(OperationTag tag, Elements) override {
    return Sum("sum", tag.bucket);
  }
  absl::Status ReduceScatter(OperationTag tag, Elements) override {
    return Sum("scatter", tag.bucket);
  }
  absl::Status AllGather(OperationTag tag, Elements) override {
    log_->Add(absl::StrCat("gather ", tag.bucket));
    return absl::OkStatus();
  }
  absl::Status Broadcast(DeviceSpan) override { return absl::OkStatus(); }
  absl::Status Barrier() override { return absl::OkStatus(); }
  void Abort(absl::Status) override {
    MutexLock lock(&mutex_);
    held_.clear();
    changed_.NotifyAll();
  }
  ExchangeTraffic traffic() const override { return {}; }
  absl::Duration working() const override { return absl::ZeroDuration(); }
  std::string Awaited() const override { return "the others"; }

 private:
  absl::Status Sum(const char* what, int bucket) {
    log_->Add(absl::StrCat(what, " ", bucket));
    MutexLock lock(&mutex_);
    while (held_.contains(bucket)) changed_.Wait(&mutex_);
    return absl::OkStatus();
  }

  Log* const log_;
  Mutex mutex_;
  CondVar changed_;
  std::set<int> held_ ABSL_GUARDED_BY(mutex_);
};

// They are asked for when an optimizer begins.
class LoggedConstants final : public StepConstantsSource {
 public:
  explicit LoggedConstants(Log* log) : log_(log) {}
  absl::StatusOr<StepConstants> At(int64_t step) override {
    log_->Add(absl::StrCat("update in ", step));
    return constants_.At(step);
  }

 private:
  Log* const log_;
  ComputedStepConstants constants_{SmallAdam(), kSteps};
};

// Every look takes a second, and is logged.
class LoggedTime final : public TimeSource {
 public:
  absl::Duration Elapsed() const override {
    MutexLock lock(&mutex_);
    ++looks_;
    changed_.NotifyAll();
    return absl::Seconds(looks_);
  }
  void Await(int64_t looks) const {
    MutexLock lock(&mutex_);
    while (looks_ < looks) changed_.Wait(&mutex_);
  }

 private:
  mutable Mutex mutex_;
  mutable CondVar changed_;
  mutable int64_t looks_ ABSL_GUARDED_BY(mutex_) = 0;
};

// One rank of one.
class RingExchangeOrderTest : public testing::Test {
 protected:
  void Make(std::optional<int> shard) {
    auto collectives = std::make_unique<LoggedCollectives>(&log_);
    collectives_ = collectives.get();
    exchange_ = std::make_unique<RingExchange>(
        1, plan_, SmallAdam(), std::make_shared<LoggedConstants>(&log_),
        std::move(collectives), &time_, RingExchangeOptions{.shard = shard});
    ASSERT_OK(exchange_->Bind(SpanOf(parameters_), SpanOf(gradients_)));
  }
  absl::Status Launch(int bucket) {
    return exchange_->Launch(0, plan_.buckets[bucket], ReadyEvent::Happened());
  }

  const BucketPlan plan_ = SmallBuckets();
  Log log_;
  LoggedTime time_;
  std::vector<float> parameters_ = std::vector<float>(kSmallCount, 1.0f);
  std::vector<float> gradients_ = std::vector<float>(kSmallCount, 1.0f);
  LoggedCollectives* collectives_ = nullptr;
  std::unique_ptr<RingExchange> exchange_;
};

// While backward goes on, with nothing else for the links to do.
TEST_F(RingExchangeOrderTest, ABucketIsUpdatedAsSoonAsItsSumIsThere) {
  Make(std::nullopt);
  ASSERT_OK(Launch(0));
  log_.Await(2);
  ASSERT_OK(Launch(1));
  log_.Await(4);
  EXPECT_THAT(log_.entries(),
              ElementsAre("sum 0", "update in 0", "sum 1", "update in 0"));
}

TEST_F(RingExchangeOrderTest, SumsGoAheadOfUpdates) {
  Make(std::nullopt);
  collectives_->Hold(0);
  ASSERT_OK(Launch(0));
  log_.Await(1);  // The thread is busy, and two buckets are there when it is not.
  ASSERT_OK(Launch(1));
  collectives_->Release(0);
  log_.Await(4);
  EXPECT_THAT(log_.entries(),
              ElementsAre("sum 0", "sum 1", "update in 0", "update in 0"));
}

// A sum that takes its time does not keep Finish from updating what is there.
TEST_F(RingExchangeOrderTest, FinishUpdatesWhileASumIsUnderWay) {
  Make(std::nullopt);
  collectives_->Hold(0);
  collectives_->Hold(1);
  for (int bucket = 0; bucket < 3; ++bucket) ASSERT_OK(Launch(bucket));
  log_.Await(1);
  collectives_->Release(0);
  log_.Await(2);
  const auto statuses = RunRanks(2, [&](int thread) {
    if (thread == 0) return exchange_->Finish(0).status();
    log_.Await(3);
    EXPECT_THAT(log_.entries(), ElementsAre("sum 0", "sum 1", "update in 0"));
    EXPECT_EQ(exchange_->Awaited(), "bucket 1 of the others");
    collectives_->Release(1);
    return absl::OkStatus();
  });
  EXPECT_THAT(statuses, Each(IsOk()));
  EXPECT_EQ(log_.entries().size(), 6);
  EXPECT_EQ(exchange_->Awaited(), "");
}

TEST_F(RingExchangeOrderTest, AShardIsUpdatedBetweenItsOperations) {
  Make(0);
  for (int bucket = 0; bucket < 3; ++bucket) ASSERT_OK(Launch(bucket));
  ASSERT_OK_AND_ASSIGN(const StepReport report, exchange_->Finish(0));
  EXPECT_EQ(report.operations, 6);
  EXPECT_THAT(log_.entries(), ElementsAre("scatter 0", "update in 0", "gather 0",
                                          "scatter 1", "update in 0", "gather 1",
                                          "scatter 2", "update in 0", "gather 2"));
}

// An optimizer looks at the clock when it begins and when it ends, a second apart; there
// is a look for each bucket besides, and one for the start of Finish. What was hidden
// counts nothing.
TEST_F(RingExchangeOrderTest, TheOptimizersTimeIsThatInFinishAlone) {
  for (const std::optional<int> shard : {std::optional<int>(), std::optional<int>(0)}) {
    exchange_.reset();
    Make(shard);
    const int64_t looks = absl::ToInt64Seconds(time_.Elapsed());
    ASSERT_OK(Launch(0));
    time_.Await(looks + 3);
    ASSERT_OK(Launch(1));
    time_.Await(looks + 6);
    collectives_->Hold(2);
    ASSERT_OK(Launch(2));
    StepReport report;
    const auto statuses = RunRanks(2, [&](int thread) -> absl::Status {
      if (thread == 0) {
        ASSIGN_OR_RETURN(report, exchange_->Finish(0));
        return absl::OkStatus();
      }
      time_.Await(looks + 7);
      collectives_->Release(2);
      return absl::OkStatus();
    });
    ASSERT_THAT(statuses, Each(IsOk()));
    EXPECT_EQ(report.optimizer, absl::Seconds(1)) << "sharded: " << shard.has_value();
  }
}

TEST_F(RingExchangeOrderTest, OperationsAreThoseOfTheStep) {
  for (const std::optional<int> shard : {std::optional<int>(), std::optional<int>(0)}) {
    exchange_.reset();
    Make(shard);
    for (int64_t step = 0; step < kSteps; ++step) {
      for (const Bucket& bucket : plan_.buckets) {
        ASSERT_OK(exchange_->Launch(step, bucket, ReadyEvent::Happened()));
      }
      ASSERT_OK_AND_ASSIGN(const StepReport report, exchange_->Finish(step));
      EXPECT_EQ(report.operations, shard ? 6 : 3);
    }
  }
}

}  // namespace
}  // namespace psring
