#include "common/exchange_order.h"

#include "common/status_matchers.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"

namespace psring {
namespace {

using testing::HasSubstr;

constexpr absl::StatusCode kFailedPrecondition = absl::StatusCode::kFailedPrecondition;
constexpr absl::StatusCode kInvalidArgument = absl::StatusCode::kInvalidArgument;

// Two buckets: bucket 0 has the last 2 of 5 elements.
class ExchangeOrderTest : public testing::Test {
 protected:
  ExchangeOrderTest() {
    ParameterLayout layout;
    layout.Add("first", {3});
    layout.Add("last", {2});
    plan_ = PlanBuckets(layout, /*cap_bytes=*/4, /*first_cap_bytes=*/4);
    order_.emplace(RangesOf(plan_));
  }

  absl::Status Bind(int64_t parameters = 5, int64_t gradients = 5) {
    return order_->Bind({.count = parameters}, {.count = gradients});
  }
  absl::Status Launch(int64_t step, int bucket) {
    return order_->Launch(step, plan_.buckets[bucket]);
  }
  // All of a step up to Finish.
  void LaunchAll(int64_t step) {
    ASSERT_OK(Launch(step, 0));
    ASSERT_OK(Launch(step, 1));
    ASSERT_OK(order_->CheckFinish(step));
  }

  BucketPlan plan_;
  std::optional<ExchangeOrder> order_;
};

TEST_F(ExchangeOrderTest, BucketsInIndexOrderStepAfterStep) {
  ASSERT_OK(Bind());
  for (int64_t step = 0; step < 3; ++step) {
    LaunchAll(step);
    order_->EndStep(step + 1);
  }
}

TEST_F(ExchangeOrderTest, TheFirstStepMayBeAnyAndTheNextIsTheExchangesChoice) {
  ASSERT_OK(Bind());
  LaunchAll(7);
  order_->EndStep(10);
  EXPECT_THAT(Launch(8, 0), StatusIs(kFailedPrecondition, "step 8 where step 10 is due"));
  LaunchAll(10);
}

TEST_F(ExchangeOrderTest, NothingComesBeforeBind) {
  EXPECT_THAT(Launch(0, 0), StatusIs(kFailedPrecondition, "step 0 before Bind"));
  EXPECT_THAT(order_->CheckFinish(0), StatusIs(kFailedPrecondition, HasSubstr("Bind")));
}

TEST_F(ExchangeOrderTest, BindsOnceAndOnlyBuffersOfThePlansSize) {
  EXPECT_THAT(Bind(4, 5),
              StatusIs(kInvalidArgument,
                       "the plan has 5 elements, the parameters 4, the gradients 5"));
  EXPECT_THAT(Bind(5, 6), StatusIs(kInvalidArgument, HasSubstr("the gradients 6")));
  ASSERT_OK(Bind());
  EXPECT_THAT(Bind(), StatusIs(kFailedPrecondition, "Bind a second time"));
}

TEST_F(ExchangeOrderTest, WhatIsRefusedChangesNothing) {
  ASSERT_OK(Bind());
  EXPECT_THAT(Launch(0, 1),
              StatusIs(kFailedPrecondition,
                       "bucket 1 of step 0 is launched after 0 of 2 buckets"));
  Bucket shorter = plan_.buckets[0];
  --shorter.range.count;
  EXPECT_THAT(order_->Launch(0, shorter),
              StatusIs(kInvalidArgument, "bucket 0 is not the plan's"));
  ASSERT_OK(Launch(3, 0));  // Nothing had fixed the step yet.
  EXPECT_THAT(Launch(3, 0), StatusIs(kFailedPrecondition, HasSubstr("after 1 of 2")));
  EXPECT_THAT(Launch(4, 1), StatusIs(kFailedPrecondition, HasSubstr("step 3 is due")));
  EXPECT_THAT(order_->CheckFinish(3),
              StatusIs(kFailedPrecondition, "step 3 is finished after 1 of 2 buckets"));
  ASSERT_OK(Launch(3, 1));
  EXPECT_THAT(Launch(3, 1), StatusIs(kFailedPrecondition, HasSubstr("after 2 of 2")));
  EXPECT_THAT(order_->CheckFinish(4),
              StatusIs(kFailedPrecondition, HasSubstr("step 3 is due")));
  EXPECT_OK(order_->CheckFinish(3));
}

}  // namespace
}  // namespace psring
