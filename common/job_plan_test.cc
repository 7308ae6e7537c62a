#include "common/job_plan.h"

#include "gtest/gtest.h"

namespace psring {
namespace {

JobSpec MakeSpec() {
  JobSpec spec;
  spec.set_job("job");
  spec.set_workers(2);
  spec.set_servers(2);
  spec.mutable_experiment()->mutable_buckets()->set_cap_bytes(64);
  spec.mutable_experiment()->mutable_buckets()->set_first_cap_bytes(16);
  ParameterLayout layout;
  layout.Add("a", {5, 3});
  layout.Add("b", {4});
  DescribeLayout(layout, &spec);
  return spec;
}

TEST(JobPlanTest, TheLayoutSurvivesItsDescription) {
  const JobPlan plan = PlanJob(MakeSpec());
  EXPECT_EQ(plan.layout.count(), 19);
  EXPECT_EQ(plan.layout.tensors()[0].shape, (std::vector<int64_t>{5, 3}));
  EXPECT_EQ(plan.buckets.buckets.size(), 2);
  EXPECT_EQ(plan.slots.slots.size(), 4);
}

TEST(JobPlanTest, NoServersNoSlots) {
  JobSpec spec = MakeSpec();
  spec.set_servers(0);
  EXPECT_TRUE(PlanJob(spec).slots.slots.empty());
}

TEST(JobPlanTest, TheFingerprintSeesEveryDifference) {
  const uint64_t before = Fingerprint(MakeSpec());
  EXPECT_EQ(before, Fingerprint(MakeSpec()));
  JobSpec spec = MakeSpec();
  spec.set_job("another");
  EXPECT_NE(before, Fingerprint(spec));
  spec = MakeSpec();
  spec.mutable_tensors(1)->set_shape(0, 5);
  EXPECT_NE(before, Fingerprint(spec));
  spec = MakeSpec();
  spec.mutable_experiment()->mutable_training()->set_seed(1);
  EXPECT_NE(before, Fingerprint(spec));
}

}  // namespace
}  // namespace psring
