#include "worker/local_exchange.h"

#include <memory>
#include <vector>

#include "absl/time/time.h"
#include "common/computed_step_constants.h"
#include "common/status_matchers.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"

namespace psring {
namespace {

using testing::ElementsAre;
using testing::HasSubstr;

// Advances by one second each time it is read.
class TickingTime final : public TimeSource {
 public:
  absl::Duration Elapsed() const override { return absl::Seconds(++reads_); }

 private:
  mutable int reads_ = 0;
};

class LocalExchangeTest : public testing::Test {
 protected:
  LocalExchangeTest() {
    layout_.Add("first", {2});
    layout_.Add("second", {1});
    plan_ = PlanBuckets(layout_, /*cap_bytes=*/8, /*first_cap_bytes=*/8);
    optimizer_.mutable_sgd()->set_learning_rate(0.5f);
    optimizer_.mutable_sgd()->set_momentum(0.5f);
  }
  // Of a run of two steps.
  std::shared_ptr<StepConstantsSource> constants() const {
    return std::make_shared<ComputedStepConstants>(optimizer_, 2);
  }
  DeviceSpan parameters() { return {.data = parameters_.data(), .count = 3}; }
  DeviceSpan gradients() { return {.data = gradients_.data(), .count = 3}; }

  ParameterLayout layout_;
  BucketPlan plan_;
  Optimizer optimizer_;
  TickingTime time_;
  std::vector<float> parameters_ = {1, 2, 3};
  std::vector<float> gradients_ = {2, 4, 8};
};

TEST_F(LocalExchangeTest, AppliesTheOptimizerToEveryBucket) {
  ASSERT_EQ(plan_.buckets.size(), 2u);
  LocalExchange exchange(plan_, optimizer_, constants(), &time_);
  ASSERT_OK(exchange.Bind(parameters(), gradients()));
  for (int step = 0; step < 2; ++step) {
    for (const Bucket& bucket : plan_.buckets) {
      ASSERT_OK(exchange.Launch(step, bucket, ReadyEvent::Happened()));
    }
    ASSERT_OK_AND_ASSIGN(const StepReport report, exchange.Finish(step));
    EXPECT_FALSE(report.finished);
    EXPECT_EQ(report.optimizer, absl::Seconds(1));
  }
  // Velocity: the gradient, then one and a half times the gradient.
  EXPECT_THAT(parameters_, ElementsAre(1 - 1 - 1.5f, 2 - 2 - 3, 3 - 4 - 6));
}

TEST_F(LocalExchangeTest, FollowsTheSchedule) {
  optimizer_.mutable_schedule()->set_warmup_steps(2);
  optimizer_.mutable_sgd()->set_momentum(0);
  LocalExchange exchange(plan_, optimizer_, constants(), &time_);
  ASSERT_OK(exchange.Bind(parameters(), gradients()));
  for (int step = 0; step < 2; ++step) {
    for (const Bucket& bucket : plan_.buckets) {
      ASSERT_OK(exchange.Launch(step, bucket, ReadyEvent::Happened()));
    }
    ASSERT_OK(exchange.Finish(step));
  }
  // A quarter, then a half of the gradient.
  EXPECT_THAT(parameters_, ElementsAre(1 - 1.5f, 2 - 3, 3 - 6));
}

TEST_F(LocalExchangeTest, WithoutConstantsAStepEndsTheExchange) {
  LocalExchange exchange(plan_, optimizer_, constants(), &time_);
  ASSERT_OK(exchange.Bind(parameters(), gradients()));
  for (const Bucket& bucket : plan_.buckets) {
    ASSERT_OK(exchange.Launch(2, bucket, ReadyEvent::Happened()));
  }
  const auto is_reason =
      StatusIs(absl::StatusCode::kOutOfRange, HasSubstr("a run of 2 updates"));
  EXPECT_THAT(exchange.Finish(2), is_reason);
  EXPECT_THAT(exchange.Launch(0, plan_.buckets[0], ReadyEvent::Happened()), is_reason);
  EXPECT_THAT(parameters_, ElementsAre(1, 2, 3));
}

TEST_F(LocalExchangeTest, RefusesBucketsOutOfOrder) {
  LocalExchange exchange(plan_, optimizer_, constants(), &time_);
  ASSERT_OK(exchange.Bind(parameters(), gradients()));
  EXPECT_THAT(exchange.Launch(0, plan_.buckets[1], ReadyEvent::Happened()),
              StatusIs(absl::StatusCode::kFailedPrecondition,
                       HasSubstr("bucket 1 of step 0 is launched after 0 of 2")));
  ASSERT_OK(exchange.Launch(0, plan_.buckets[0], ReadyEvent::Happened()));
  EXPECT_THAT(exchange.Finish(0), StatusIs(absl::StatusCode::kFailedPrecondition,
                                           HasSubstr("after 1 of 2 buckets")));
}

TEST_F(LocalExchangeTest, RefusesBuffersOfAnotherSize) {
  LocalExchange exchange(plan_, optimizer_, constants(), &time_);
  EXPECT_THAT(exchange.Bind({.data = parameters_.data(), .count = 2}, gradients()),
              StatusIs(absl::StatusCode::kInvalidArgument,
                       HasSubstr("3 elements, the parameters 2, the gradients 3")));
}

TEST_F(LocalExchangeTest, AfterAbortEveryCallReturnsTheFirstReason) {
  LocalExchange exchange(plan_, optimizer_, constants(), &time_);
  ASSERT_OK(exchange.Bind(parameters(), gradients()));
  exchange.Abort(absl::AbortedError("first"));
  exchange.Abort(absl::AbortedError("second"));
  EXPECT_THAT(exchange.Launch(0, plan_.buckets[0], ReadyEvent::Happened()),
              StatusIs(absl::StatusCode::kAborted, "first"));
  EXPECT_THAT(exchange.Finish(0), StatusIs(absl::StatusCode::kAborted, "first"));
  EXPECT_THAT(parameters_, ElementsAre(1, 2, 3));
}

}  // namespace
}  // namespace psring
