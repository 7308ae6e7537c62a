#include "experiments/plan_table.h"

#include <string>
#include <vector>

#include "absl/strings/ascii.h"
#include "absl/strings/str_split.h"
#include "common/job_plan.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"

namespace psring {
namespace {

using testing::AllOf;
using testing::Contains;
using testing::Each;
using testing::HasSubstr;
using testing::Not;

constexpr DataSetShape kData = {
    .train_count = 10, .test_count = 5, .features = 2, .classes = 3};

// 27 parameters in three buckets: 3 elements, 16, and 8.
JobSpec MakeSpec() {
  JobSpec spec;
  spec.set_workers(3);
  spec.set_steps(5);
  Experiment& experiment = *spec.mutable_experiment();
  experiment.mutable_training()->set_global_batch(6);
  experiment.mutable_training()->set_evaluation_interval(2);
  Sgd& sgd = *experiment.mutable_training()->mutable_optimizer()->mutable_sgd();
  sgd.set_learning_rate(0.5f);
  sgd.set_momentum(0.9f);
  experiment.mutable_buckets()->set_first_cap_bytes(16);
  experiment.mutable_buckets()->set_cap_bytes(80);
  ParameterLayout layout;
  layout.Add("layer0.weight", {2, 4});
  layout.Add("layer0.bias", {4});
  layout.Add("layer1.weight", {4, 3});
  layout.Add("layer1.bias", {3});
  DescribeLayout(layout, &spec);
  return spec;
}

JobSpec RingSpec() {
  JobSpec spec = MakeSpec();
  spec.mutable_arm()->set_name("ring");
  spec.mutable_arm()->mutable_ring();
  return spec;
}

JobSpec ServersSpec() {
  JobSpec spec = MakeSpec();
  spec.set_servers(2);
  spec.mutable_arm()->set_name("servers");
  spec.mutable_arm()->mutable_parameter_server()->mutable_sync();
  return spec;
}

// Lines with the blanks between columns made one.
std::vector<std::string> LinesOf(const JobSpec& spec) {
  std::vector<std::string> lines = absl::StrSplit(PlanTable(spec, kData), '\n');
  for (std::string& line : lines) absl::RemoveExtraAsciiWhitespace(&line);
  return lines;
}

TEST(PlanTableTest, SaysWhatRuns) {
  EXPECT_EQ(LinesOf(ServersSpec())[0],
            "arm servers: 3 workers, 2 servers, 5 steps, 27 parameters (108 bytes)");
  EXPECT_EQ(LinesOf(ServersSpec())[1],
            "mode: parameter server, sync, ring order; sgd, learning rate 0.5");
}

TEST(PlanTableTest, BucketsInOrderOfLaunch) {
  EXPECT_THAT(LinesOf(RingSpec()),
              AllOf(Contains("bucket 0 3 12 ring layer1.bias"),
                    Contains("bucket 1 16 64 ring layer0.bias layer1.weight"),
                    Contains("bucket 2 8 32 ring layer0.weight")));
  EXPECT_THAT(LinesOf(ServersSpec()), Contains("bucket 0 3 12 layer1.bias"));
}

TEST(PlanTableTest, AutoSaysWhichAlgorithmSumsWhichBucket) {
  JobSpec spec = RingSpec();
  RingMode& ring = *spec.mutable_arm()->mutable_ring();
  ring.set_algorithm(RingMode::AUTO);
  AlgorithmChoice& small = *ring.add_choices();
  small.set_up_to_bytes(32);
  small.set_algorithm(RingMode::HALVING_DOUBLING);
  ring.add_choices()->set_algorithm(RingMode::RING);
  EXPECT_THAT(LinesOf(spec),
              AllOf(Contains("bucket 0 3 12 halving_doubling layer1.bias"),
                    Contains("bucket 1 16 64 ring layer0.bias layer1.weight"),
                    Contains("bucket 2 8 32 halving_doubling layer0.weight")));
}

TEST(PlanTableTest, ALongListOfTensorsIsShortened) {
  JobSpec spec = RingSpec();
  spec.mutable_experiment()->mutable_buckets()->set_first_cap_bytes(1 << 20);
  EXPECT_THAT(LinesOf(spec), Contains("bucket 0 27 108 ring layer0.weight layer0.bias "
                                      "layer1.weight layer1.bias"));
  TensorSpec& more = *spec.add_tensors();
  more.set_name("scale");
  more.add_shape(1);
  EXPECT_THAT(LinesOf(spec),
              Contains("bucket 0 28 112 ring 5 tensors, layer0.weight to scale"));
}

// Buckets of 3, 16 and 8 elements are cut into 2 + 1, 8 + 8 and 4 + 4.
TEST(PlanTableTest, SlotsOfServers) {
  EXPECT_THAT(LinesOf(ServersSpec()),
              AllOf(Contains("server 0 3 14 56"), Contains("server 1 3 13 52")));
  EXPECT_THAT(LinesOf(RingSpec()),
              Each(AllOf(Not(HasSubstr("slots")), Not(HasSubstr("server ")))));
}

TEST(PlanTableTest, TrafficOfServers) {
  EXPECT_THAT(LinesOf(ServersSpec()),
              AllOf(Contains("worker 0 108 108"), Contains("worker 2 108 108"),
                    Contains("server 0 168 168"), Contains("server 1 156 156")));
}

// Buckets are cut into 1 + 1 + 1, 6 + 5 + 5 and 3 + 3 + 2 elements; a rank sends each
// bucket twice, but its own part and its right neighbour's once. In elements: rank 0
// sends 4 + 21 + 10, rank 1 sends 4 + 22 + 11, rank 2 sends 4 + 21 + 11.
TEST(PlanTableTest, TrafficOfTheRing) {
  EXPECT_THAT(LinesOf(RingSpec()),
              AllOf(Contains("worker 0 140 144"), Contains("worker 1 148 140"),
                    Contains("worker 2 144 148")));
}

TEST(PlanTableTest, HostsAndTheLeastTimeOfTheirTraffic) {
  JobSpec spec = RingSpec();
  Hosts& hosts = *spec.mutable_experiment()->mutable_cluster()->mutable_hosts();
  hosts.set_link_mbit_s(10);
  hosts.set_queue_bytes(5000);
  hosts.set_burst_bytes(4000);
  EXPECT_THAT(
      LinesOf(spec),
      AllOf(Contains("hosts: links of 10 Mbit/s, queues of 5,000 bytes, bursts of 4,000 "
                     "bytes, reno"),
            Contains("host rack sends Mbit/s receives Mbit/s payload at line rate: "
                     "ms/step out ms/step in")));
  EXPECT_THAT(LinesOf(RingSpec()), Each(Not(HasSubstr("Mbit/s"))));
}

// Per sample, activations are 2 inputs, 4 + 3 outputs of layers, and two gradients as
// wide as the widest layer: 17 floats, for 2 samples. The data set is 15 samples of 2
// bytes and a label. Worker 0 keeps snapshots after steps 2, 4 and 5.
TEST(PlanTableTest, MemoryOfTheRing) {
  EXPECT_THAT(LinesOf(RingSpec()),
              AllOf(Contains("worker 0 108 108 108 0 0 136 45 324 829"),
                    Contains("worker 1 108 108 108 0 0 136 45 0 505")));
}

// Contributions are those of 3 workers to the server's share, and so are 3 snapshots;
// worker 0 fetches one at a time.
TEST(PlanTableTest, MemoryWithServersLiesWhereTheOptimizerRuns) {
  EXPECT_THAT(LinesOf(ServersSpec()),
              AllOf(Contains("worker 0 108 108 0 0 0 136 45 108 505"),
                    Contains("worker 1 108 108 0 0 0 136 45 0 397"),
                    Contains("server 0 56 0 56 168 0 0 0 168 448"),
                    Contains("server 1 52 0 52 156 0 0 0 156 416")));
}

// A delay of 5 keeps 5 versions, delay compensation what each worker has read.
TEST(PlanTableTest, OlderVersionsTakeMemory) {
  JobSpec spec = ServersSpec();
  ParameterServerMode& mode = *spec.mutable_arm()->mutable_parameter_server();
  mode.mutable_fixed_delay()->set_delay(5);
  EXPECT_THAT(LinesOf(spec), Contains("server 0 56 0 56 448 280 0 0 168 1,008"));
  mode.mutable_async();
  mode.mutable_stale_updates()->set_delay_compensation(0.5f);
  EXPECT_THAT(LinesOf(spec), Contains("server 0 56 0 56 168 168 0 0 168 616"));
}

TEST(PlanTableTest, WithoutMomentumThereIsNoOptimizerState) {
  JobSpec spec = ServersSpec();
  spec.mutable_experiment()
      ->mutable_training()
      ->mutable_optimizer()
      ->mutable_sgd()
      ->clear_momentum();
  EXPECT_THAT(LinesOf(spec), Contains("server 0 56 0 0 168 0 0 0 168 392"));
}

TEST(PlanTableTest, AdamKeepsTwoFloatsForEachElement) {
  JobSpec ring = RingSpec(), servers = ServersSpec();
  for (JobSpec* const spec : {&ring, &servers}) {
    spec->mutable_experiment()->mutable_training()->mutable_optimizer()->mutable_adam();
  }
  EXPECT_THAT(LinesOf(ring), Contains("worker 1 108 108 216 0 0 136 45 0 613"));
  EXPECT_THAT(LinesOf(servers), AllOf(Contains("worker 1 108 108 0 0 0 136 45 0 397"),
                                      Contains("server 0 56 0 112 168 0 0 0 168 504")));
}

TEST(PlanTableTest, WithoutAnIntervalOnlyTheLastStepIsKept) {
  JobSpec spec = RingSpec();
  spec.mutable_experiment()->mutable_training()->clear_evaluation_interval();
  EXPECT_THAT(LinesOf(spec), Contains("worker 0 108 108 108 0 0 136 45 108 613"));
}

}  // namespace
}  // namespace psring
