#include "common/fetched_step_constants.h"

#include <cstdint>
#include <memory>
#include <thread>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "common/coordinator.h"
#include "common/coordinator_client.h"
#include "common/coordinator_service.h"
#include "common/job_observer.h"
#include "common/mutex.h"
#include "common/schedule.h"
#include "common/status_matchers.h"
#include "common/time_source.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"

namespace psring {
namespace {

using absl::StatusCode;
using testing::ElementsAre;
using testing::HasSubstr;

constexpr int64_t kSteps = 10;
constexpr int64_t kBlock = 4;  // Three blocks, the last of two steps.

// Each step's constants show which step they are of.
StepConstants ConstantsOf(int64_t step) {
  return {.learning_rate = static_cast<float>(step)};
}

// Where blocks come from: notes what is asked for, and holds back or fails what the test
// wants. Outlives the source.
class Origin {
 public:
  FetchedStepConstants::Fetch fetch() {
    return [this](int64_t first_step, int64_t count) { return Get(first_step, count); };
  }

  // From now on the block that begins there waits for Release, or fails.
  void HoldBack(int64_t first_step) {
    MutexLock lock(&mutex_);
    held_ = first_step;
  }
  void Release() {
    MutexLock lock(&mutex_);
    held_ = -1;
    changed_.NotifyAll();
  }
  void Fail(int64_t first_step) {
    MutexLock lock(&mutex_);
    failing_ = first_step;
  }

  // Waits until the source has asked so often, and returns the first steps asked for.
  std::vector<int64_t> AwaitAsked(size_t times) {
    MutexLock lock(&mutex_);
    while (asked_.size() < times) changed_.Wait(&mutex_);
    return asked_;
  }

 private:
  absl::StatusOr<std::vector<StepConstants>> Get(int64_t first_step, int64_t count) {
    MutexLock lock(&mutex_);
    asked_.push_back(first_step);
    changed_.NotifyAll();
    while (held_ == first_step) changed_.Wait(&mutex_);
    if (failing_ == first_step) return absl::UnavailableError("the origin is gone");
    std::vector<StepConstants> constants;
    for (int64_t i = 0; i < count; ++i) constants.push_back(ConstantsOf(first_step + i));
    return constants;
  }

  Mutex mutex_;
  CondVar changed_;
  int64_t held_ ABSL_GUARDED_BY(mutex_) = -1;
  int64_t failing_ ABSL_GUARDED_BY(mutex_) = -1;
  std::vector<int64_t> asked_ ABSL_GUARDED_BY(mutex_);
};

TEST(FetchedStepConstantsTest, EveryStepIsItsOwnAndEveryBlockIsFetchedOnce) {
  Origin origin;
  FetchedStepConstants source(kSteps, origin.fetch(), kBlock);
  for (int64_t step = 0; step < kSteps; ++step) {
    ASSERT_OK_AND_ASSIGN(const StepConstants constants, source.At(step));
    EXPECT_EQ(constants, ConstantsOf(step));
  }
  EXPECT_THAT(origin.AwaitAsked(3), ElementsAre(0, 4, 8));
}

TEST(FetchedStepConstantsTest, TheFirstBlockIsFetchedBeforeItIsAskedFor) {
  Origin origin;
  FetchedStepConstants source(kSteps, origin.fetch(), kBlock);
  EXPECT_THAT(origin.AwaitAsked(1), ElementsAre(0));
}

TEST(FetchedStepConstantsTest, ABlockIsUsedWhileTheNextIsOnItsWay) {
  Origin origin;
  origin.HoldBack(4);
  FetchedStepConstants source(kSteps, origin.fetch(), kBlock);
  ASSERT_OK(source.At(0));
  EXPECT_THAT(origin.AwaitAsked(2), ElementsAre(0, 4));
  for (int64_t step = 1; step < kBlock; ++step) EXPECT_OK(source.At(step));
  std::thread waiting([&] {
    ASSERT_OK_AND_ASSIGN(const StepConstants constants, source.At(4));
    EXPECT_EQ(constants, ConstantsOf(4));
  });
  origin.Release();
  waiting.join();
}

TEST(FetchedStepConstantsTest, OldBlocksComeAgain) {
  Origin origin;
  FetchedStepConstants source(kSteps, origin.fetch(), kBlock);
  for (const int64_t step : {0, 4, 8}) ASSERT_OK(source.At(step));
  ASSERT_OK_AND_ASSIGN(const StepConstants before, source.At(7));  // Still here.
  EXPECT_EQ(before, ConstantsOf(7));
  EXPECT_EQ(origin.AwaitAsked(3).size(), 3);
  ASSERT_OK_AND_ASSIGN(const StepConstants first, source.At(1));
  EXPECT_EQ(first, ConstantsOf(1));
  EXPECT_THAT(origin.AwaitAsked(4), ElementsAre(0, 4, 8, 0));
}

TEST(FetchedStepConstantsTest, ManyThreadsAnywhere) {
  Origin origin;
  FetchedStepConstants source(kSteps, origin.fetch(), kBlock);
  std::vector<std::thread> threads;
  for (int64_t thread = 0; thread < 4; ++thread) {
    threads.emplace_back([&, thread] {
      for (int64_t i = 0; i < 200; ++i) {
        const int64_t step = (thread * 7 + i * 3) % kSteps;
        ASSERT_OK_AND_ASSIGN(const StepConstants constants, source.At(step));
        ASSERT_EQ(constants, ConstantsOf(step));
      }
    });
  }
  for (std::thread& thread : threads) thread.join();
}

TEST(FetchedStepConstantsTest, AFailureReachesWhoWaitsAndEveryLaterCall) {
  Origin origin;
  origin.Fail(4);
  origin.HoldBack(4);
  FetchedStepConstants source(kSteps, origin.fetch(), kBlock);
  ASSERT_OK(source.At(0));
  const auto is_gone = StatusIs(StatusCode::kUnavailable, "the origin is gone");
  std::thread waiting([&] { EXPECT_THAT(source.At(5), is_gone); });
  origin.Release();
  waiting.join();
  EXPECT_THAT(source.At(0), is_gone);
}

TEST(FetchedStepConstantsTest, StepsOutsideTheRunAreRefusedAndEndNothing) {
  Origin origin;
  FetchedStepConstants source(kSteps, origin.fetch(), kBlock);
  for (const int64_t step : {int64_t{-1}, kSteps, int64_t{1} << 62}) {
    EXPECT_THAT(source.At(step),
                StatusIs(StatusCode::kOutOfRange, HasSubstr("a run of 10 steps")));
  }
  EXPECT_OK(source.At(kSteps - 1));
}

TEST(FetchedStepConstantsTest, ABlockOfTheWrongLengthIsAnError) {
  FetchedStepConstants source(
      kSteps, [](int64_t, int64_t) { return std::vector<StepConstants>(3); });
  EXPECT_THAT(source.At(0), StatusIs(StatusCode::kInternal,
                                     HasSubstr("10 steps from step 0 came as 3")));
}

// The coordinator as the origin, over real gRPC.
class CoordinatorScheduleTest : public testing::Test {
 protected:
  static constexpr int64_t kRun = 5 * FetchedStepConstants::kBlockSteps + 3;

  static JobSpec MakeSpec() {
    JobSpec spec;
    spec.set_job("job");
    spec.set_workers(1);
    spec.set_steps(kRun);
    spec.set_contributions_per_update(1);
    spec.mutable_experiment()->mutable_liveness()->set_heartbeat_seconds(1);
    Optimizer& optimizer =
        *spec.mutable_experiment()->mutable_training()->mutable_optimizer();
    optimizer.mutable_adam()->set_learning_rate(0.1f);
    optimizer.mutable_adam()->set_beta1(0.9f);
    optimizer.mutable_adam()->set_beta2(0.999f);
    optimizer.mutable_schedule()->set_warmup_steps(100);
    optimizer.mutable_schedule()->mutable_cosine();
    return spec;
  }

  void SetUp() override {
    auto host = CoordinatorHost::Start("127.0.0.1:0", &coordinator_);
    ASSERT_OK(host);
    host_ = *std::move(host);
    CoordinatorClient::Options options;
    options.address = absl::StrCat("127.0.0.1:", host_->port());
    options.job = "job";
    options.member.set_role(WORKER);
    auto client = CoordinatorClient::Join(options);
    ASSERT_OK(client);
    client_ = *std::move(client);
  }

  FetchedStepConstants::Fetch fetch() {
    return [this](int64_t first_step, int64_t count) {
      return client_->GetSchedule(first_step, count);
    };
  }

  const JobSpec spec_ = MakeSpec();
  const RealTime time_;
  JobObserver nobody_;
  Coordinator coordinator_{spec_, &time_, &nobody_};
  std::unique_ptr<CoordinatorHost> host_;
  std::unique_ptr<CoordinatorClient> client_;
};

TEST_F(CoordinatorScheduleTest, EveryStepHasTheCoordinatorsBits) {
  FetchedStepConstants source(kRun, fetch());
  for (int64_t step = 0; step < kRun; ++step) {
    ASSERT_OK_AND_ASSIGN(const StepConstants constants, source.At(step));
    ASSERT_EQ(constants,
              StepConstantsAt(spec_.experiment().training().optimizer(), kRun, step));
  }
}

TEST_F(CoordinatorScheduleTest, RefusalsSayWhy) {
  EXPECT_THAT(
      client_->GetSchedule(kRun, 1),
      StatusIs(StatusCode::kInvalidArgument,
               HasSubstr(absl::StrCat("the job has at most ", kRun, " updates"))));
}

TEST_F(CoordinatorScheduleTest, AnAbortReachesTheSource) {
  FetchedStepConstants source(kRun, fetch());
  ASSERT_OK(source.At(0));
  coordinator_.Abort(absl::CancelledError("enough"));
  const auto is_reason = StatusIs(StatusCode::kCancelled, "enough");
  EXPECT_THAT(client_->Get("never"), is_reason);  // It has come.
  EXPECT_THAT(source.At(kRun - 1), is_reason);
}

// A call that blocks on the coordinator stands for a schedule that does not come.
TEST_F(CoordinatorScheduleTest, AnAbortEndsAWait) {
  FetchedStepConstants source(
      kRun, [this](int64_t, int64_t) -> absl::StatusOr<std::vector<StepConstants>> {
        return client_->Get("never").status();
      });
  std::thread aborter([this] { coordinator_.Abort(absl::CancelledError("enough")); });
  EXPECT_THAT(source.At(0), StatusIs(StatusCode::kCancelled, "enough"));
  aborter.join();
}

TEST_F(CoordinatorScheduleTest, ALostCoordinatorIsTheSourcesEnd) {
  FetchedStepConstants source(kRun, fetch());
  ASSERT_OK(source.At(0));
  host_.reset();
  EXPECT_THAT(client_->Get("never"),
              StatusIs(StatusCode::kUnavailable, HasSubstr("coordinator")));
  EXPECT_THAT(source.At(kRun - 1),
              StatusIs(StatusCode::kUnavailable, HasSubstr("coordinator")));
}

}  // namespace
}  // namespace psring
