#include "common/job_plan.h"

#include <optional>

#include "common/slot_plan.h"
#include "common/status_matchers.h"
#include "gmock/gmock.h"
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

TEST(JobPlanTest, PlacementIsTheArms) {
  JobSpec spec = MakeSpec();
  const uint64_t striped = Fingerprint(spec);
  ParameterServerMode& mode = *spec.mutable_arm()->mutable_parameter_server();
  mode.set_placement(ParameterServerMode::SINGLE);
  EXPECT_EQ(ServerElements(PlanJob(spec).slots, 0), 19);
  EXPECT_EQ(PlanJob(spec).slots.of_server[1].size(), 0);
  EXPECT_NE(Fingerprint(spec), striped);  // Processes that plan differently do not meet.
  mode.set_placement(ParameterServerMode::BY_TENSOR_SIZE);
  EXPECT_EQ(ServerElements(PlanJob(spec).slots, 0), 15);
  EXPECT_EQ(ServerElements(PlanJob(spec).slots, 1), 4);
}

// 2,000 buckets on 4,000 servers would be 8 million slots.
TEST(JobPlanTest, APlanWithTooManySlotsIsRefused) {
  JobSpec spec = MakeSpec();
  EXPECT_OK(CheckPlan(spec));
  for (int i = 0; i < 1998; ++i) {
    TensorSpec& tensor = *spec.add_tensors();
    tensor.set_name("more");
    tensor.add_shape(10'000);
  }
  EXPECT_OK(CheckPlan(spec));
  spec.set_servers(4000);
  spec.mutable_arm()->set_name("many");
  EXPECT_THAT(CheckPlan(spec),
              StatusIs(absl::StatusCode::kInvalidArgument,
                       testing::Eq("arm 'many': its 2000 buckets on 4000 servers are "
                                   "7992019 slots; allowed: at most 4194304, with fewer "
                                   "servers or larger buckets")));
  spec.mutable_arm()->mutable_parameter_server()->set_placement(
      ParameterServerMode::SINGLE);
  EXPECT_OK(CheckPlan(spec));
  spec.set_servers(0);
  EXPECT_OK(CheckPlan(spec));
}

TEST(JobPlanTest, AnArmsOwnHostsReplaceTheExperiments) {
  JobSpec spec = MakeSpec();
  EXPECT_EQ(HostsOf(spec), nullptr);
  spec.mutable_experiment()->mutable_cluster()->mutable_hosts()->set_link_mbit_s(1);
  ASSERT_NE(HostsOf(spec), nullptr);
  EXPECT_EQ(HostsOf(spec)->link_mbit_s(), 1);
  spec.mutable_arm()->mutable_cluster()->set_workers(2);
  EXPECT_EQ(HostsOf(spec)->link_mbit_s(), 1);
  spec.mutable_arm()->mutable_cluster()->mutable_hosts()->set_link_mbit_s(2);
  EXPECT_EQ(HostsOf(spec)->link_mbit_s(), 2);
}

TEST(JobPlanTest, ServersShareTheHostsOfWorkersOnlyWhereTheyAreToldTo) {
  JobSpec spec = MakeSpec();
  spec.set_workers(3);
  EXPECT_EQ(PeerOnHost(spec, 0), std::nullopt);
  Hosts& hosts = *spec.mutable_experiment()->mutable_cluster()->mutable_hosts();
  EXPECT_EQ(PeerOnHost(spec, 0), std::nullopt);
  hosts.set_colocated_servers(true);
  EXPECT_EQ(PeerOnHost(spec, 0), 0);
  EXPECT_EQ(PeerOnHost(spec, 1), 1);
  EXPECT_EQ(PeerOnHost(spec, 2), std::nullopt);  // There are two servers.
  spec.mutable_arm()->mutable_cluster()->mutable_hosts();
  EXPECT_EQ(PeerOnHost(spec, 0), std::nullopt);
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
