#include "experiments/probe/arithmetic_rates.h"

#include <string>

#include "absl/time/time.h"
#include "common/job_plan.h"
#include "common/status_matchers.h"
#include "google/protobuf/text_format.h"
#include "gtest/gtest.h"

namespace psring {
namespace {

TEST(ArithmeticRatesTest, Adding) { EXPECT_GT(MeasureAddRate(absl::ZeroDuration()), 0); }

// Every mode's rules let the measurement go on.
class ApplyRateTest : public testing::TestWithParam<std::string> {};

TEST_P(ApplyRateTest, InEveryMode) {
  JobSpec spec;
  spec.set_workers(3);
  spec.set_servers(2);
  spec.set_steps(4);
  ParameterServerMode& mode = *spec.mutable_arm()->mutable_parameter_server();
  ASSERT_TRUE(google::protobuf::TextFormat::ParseFromString(GetParam(), &mode));
  spec.mutable_experiment()
      ->mutable_training()
      ->mutable_optimizer()
      ->mutable_sgd()
      ->set_learning_rate(0.1);
  spec.mutable_experiment()->mutable_buckets()->set_cap_bytes(4000);
  spec.mutable_experiment()->mutable_buckets()->set_first_cap_bytes(400);
  ParameterLayout layout;
  layout.Add("weight", {900});
  layout.Add("bias", {100});
  DescribeLayout(layout, &spec);
  ASSERT_OK_AND_ASSIGN(const double rate, MeasureApplyRate(spec, absl::ZeroDuration()));
  EXPECT_GT(rate, 0);
}

INSTANTIATE_TEST_SUITE_P(
    Modes, ApplyRateTest,
    testing::Values("sync {}", "sync { order: RANK }", "backup { spares: 1 }",
                    "bounded { bound: 2 }", "async {}", "fixed_delay { delay: 2 }",
                    "async {} stale_updates { delay_compensation: 0.1 }"));

}  // namespace
}  // namespace psring
