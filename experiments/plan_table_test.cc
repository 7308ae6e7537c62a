#include "experiments/plan_table.h"

#include <string>
#include <vector>

#include "absl/strings/ascii.h"
#include "absl/strings/str_cat.h"
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
  EXPECT_EQ(LinesOf(ServersSpec())[2], "compute: real");
}

TEST(PlanTableTest, SaysWhichDeviceUnlessItIsTheCpu) {
  JobSpec spec = RingSpec();
  EXPECT_THAT(LinesOf(spec), Each(Not(HasSubstr("device"))));
  spec.mutable_experiment()->set_device(Experiment::CUDA);
  EXPECT_EQ(LinesOf(spec)[5], "device: CUDA, a GPU for each worker");
}

// 10 samples in batches of 6: two parts of 2 are left.
TEST(PlanTableTest, SaysWhatIsReducedAndWhatBecomesOfAPartialBatch) {
  JobSpec spec = RingSpec();
  EXPECT_EQ(LinesOf(spec)[3],
            "reduce: mean over 3 workers of 2 samples each, global batch 6, effective "
            "learning rate 0.5");
  EXPECT_EQ(LinesOf(spec)[4], "uneven: drop, 4 samples of each epoch left out");
  spec.mutable_experiment()->mutable_training()->set_uneven(Training::JOIN);
  EXPECT_EQ(LinesOf(spec)[4],
            "uneven: join, the last step of an epoch has 2 of 3 workers, and its mean is "
            "over them, 0 samples left out");
  spec.mutable_experiment()->mutable_compute()->mutable_emulated();
  EXPECT_EQ(LinesOf(spec)[4], "");
}

// Of two passes, each has half the activations, and there is a sum of their gradients.
TEST(PlanTableTest, PassesTakeMemoryForTheSumOfTheirGradients) {
  JobSpec spec = RingSpec();
  spec.mutable_experiment()->mutable_training()->set_micro_batches(2);
  EXPECT_THAT(LinesOf(spec), Contains("worker 1 108 108 108 108 68 45 0 545"));
}

TEST(PlanTableTest, OneBranchHasActivations) {
  JobSpec spec = RingSpec();
  spec.clear_tensors();
  ParameterLayout layout;
  for (const char* branch : {"layer0.branch0", "layer0.branch1"}) {
    layout.Add(absl::StrCat(branch, ".weight"), {2, 4});
    layout.Add(absl::StrCat(branch, ".bias"), {4});
  }
  layout.Add("layer1.weight", {4, 3});
  layout.Add("layer1.bias", {3});
  DescribeLayout(layout, &spec);
  EXPECT_THAT(LinesOf(spec), Contains("worker 1 156 156 156 136 45 0 649"));
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
              AllOf(Contains("slots, striped slots elements bytes"),
                    Contains("server 0 3 14 56"), Contains("server 1 3 13 52"),
                    Contains("imbalance: 1.037 (most bytes of a server / mean)")));
  EXPECT_THAT(LinesOf(RingSpec()),
              Each(AllOf(Not(HasSubstr("slots")), Not(HasSubstr("server ")))));
}

// Tensors of 8, 4, 12 and 3 elements. By size: 12 and 3 against 8 and 4.
TEST(PlanTableTest, OtherPlacements) {
  JobSpec spec = ServersSpec();
  ParameterServerMode& mode = *spec.mutable_arm()->mutable_parameter_server();
  mode.set_placement(ParameterServerMode::BY_TENSOR_SIZE);
  EXPECT_THAT(LinesOf(spec),
              AllOf(Contains("mode: parameter server, sync, ring order, placed "
                             "BY_TENSOR_SIZE; sgd, learning rate 0.5"),
                    Contains("slots, by tensor size slots elements bytes"),
                    Contains("server 0 2 15 60"), Contains("server 1 2 12 48"),
                    Contains("imbalance: 1.111 (most bytes of a server / mean)"),
                    Contains("server 0 180 180"), Contains("server 1 144 144")));
  mode.set_placement(ParameterServerMode::SINGLE);
  EXPECT_THAT(LinesOf(spec),
              AllOf(Contains("server 0 3 27 108"), Contains("server 1 0 0 0"),
                    Contains("imbalance: 2.000 (most bytes of a server / mean)")));
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
            Contains("payload over hosts' links rack sends Mbit/s receives Mbit/s "
                     "bytes/step out in at line rate: ms/step out in"),
            Contains("worker 0 0 10 10 140 144 0.112 0.115")));
  EXPECT_THAT(LinesOf(RingSpec()), Each(Not(HasSubstr("Mbit/s"))));
}

// Server 0 has 56 bytes and sends them to the two workers that are not beside it; worker
// 0 sends the 52 of server 1. Worker 2 is alone.
TEST(PlanTableTest, HostsOfTwoProcessesHaveWhatLeavesThem) {
  JobSpec spec = ServersSpec();
  Hosts& hosts = *spec.mutable_experiment()->mutable_cluster()->mutable_hosts();
  hosts.set_link_mbit_s(10);
  hosts.set_colocated_servers(true);
  EXPECT_THAT(LinesOf(spec),
              AllOf(Contains(HasSubstr("server k on the host of worker k")),
                    Contains("worker 0 108 108"), Contains("server 0 168 168"),
                    Contains("worker 0 + server 0 0 10 10 164 164 0.131 0.131"),
                    Contains("worker 1 + server 1 0 10 10 160 160 0.128 0.128"),
                    Contains("worker 2 0 10 10 108 108 0.086 0.086")));
}

// Per sample, activations are 2 inputs, 4 + 3 outputs of layers, and two gradients as
// wide as the widest layer: 17 floats, for 2 samples. The data set is 15 samples of 2
// bytes and a label. Worker 0 keeps snapshots after steps 2, 4 and 5.
TEST(PlanTableTest, MemoryOfTheRing) {
  EXPECT_THAT(LinesOf(RingSpec()), AllOf(Contains("worker 0 108 108 108 136 45 324 829"),
                                         Contains("worker 1 108 108 108 136 45 0 505")));
}

// In elements, by the chunks above: 1 + 6 + 3, 1 + 5 + 3 and 1 + 5 + 2.
TEST(PlanTableTest, AShardedOptimizerHasStateForItsChunksAlone) {
  JobSpec spec = RingSpec();
  spec.mutable_arm()->mutable_ring()->set_sharded_optimizer(true);
  EXPECT_THAT(LinesOf(spec), AllOf(Contains("worker 0 108 108 40 136 45 324 761"),
                                   Contains("worker 1 108 108 36 136 45 0 433"),
                                   Contains("worker 2 108 108 32 136 45 0 429")));
  EXPECT_THAT(LinesOf(spec), Contains("worker 0 140 144")) << "the ring's traffic";
  spec.mutable_experiment()->add_ring_order(0);
  spec.mutable_experiment()->add_ring_order(2);
  spec.mutable_experiment()->add_ring_order(1);
  EXPECT_THAT(LinesOf(spec), Contains("worker 1 108 108 32 136 45 0 429"));
}

TEST(PlanTableTest, SaysWhenBucketsAreLaunched) {
  JobSpec spec = RingSpec();
  for (const bool overlap : {true, false}) {
    spec.mutable_experiment()->mutable_buckets()->set_overlap(overlap);
    EXPECT_THAT(
        LinesOf(spec),
        Contains(HasSubstr(overlap ? "buckets, in order of launch elements"
                                   : "buckets, launched after backward elements")));
  }
}

// Contributions are those of 3 workers to the server's share; older versions are 3
// snapshots, which worker 0 fetches one at a time, and one that is still read.
TEST(PlanTableTest, MemoryWithServersLiesWhereTheOptimizerRuns) {
  EXPECT_THAT(LinesOf(ServersSpec()),
              AllOf(Contains("memory, bytes parameters gradients optimizer state "
                             "contributions, at most older versions, at most "
                             "activations data set snapshots sum"),
                    Contains("worker 0 108 108 0 0 0 136 45 108 505"),
                    Contains("worker 1 108 108 0 0 0 136 45 0 397"),
                    Contains("server 0 56 0 56 168 224 0 0 0 504"),
                    Contains("server 1 52 0 52 156 208 0 0 0 468")));
}

// Of contributions a delay of 5 keeps 6; of versions 5, beside 3 snapshots and 2 that
// each of 3 workers may read.
TEST(PlanTableTest, OlderVersionsTakeMemory) {
  JobSpec spec = ServersSpec();
  ParameterServerMode& mode = *spec.mutable_arm()->mutable_parameter_server();
  mode.mutable_fixed_delay()->set_delay(5);
  EXPECT_THAT(LinesOf(spec), Contains("server 0 56 0 56 336 784 0 0 0 1,232"));
  mode.mutable_async();
  mode.mutable_stale_updates()->set_delay_compensation(0.5f);
  EXPECT_THAT(LinesOf(spec), Contains("server 0 56 0 56 168 504 0 0 0 784"));
}

// On a ring as much as the largest bucket, of 16 elements; to servers all gradients.
TEST(PlanTableTest, GradientsOnTheWireHaveBuffers) {
  JobSpec ring = RingSpec(), servers = ServersSpec();
  for (JobSpec* const spec : {&ring, &servers}) {
    spec->mutable_arm()->mutable_wire()->mutable_bf16();
  }
  EXPECT_THAT(LinesOf(ring),
              AllOf(Contains("memory, bytes parameters gradients optimizer state wire "
                             "buffers activations data set snapshots sum"),
                    Contains("worker 1 108 108 108 32 136 45 0 537")));
  EXPECT_THAT(LinesOf(servers), AllOf(Contains("worker 1 108 108 0 54 0 0 136 45 0 451"),
                                      Contains("server 0 56 0 56 0 168 224 0 0 0 504")));
}

// Servers keep what they have at the end all the same.
TEST(PlanTableTest, EmulatedComputeNeedsNoDataAndNoActivations) {
  JobSpec ring = RingSpec(), servers = ServersSpec();
  for (JobSpec* const spec : {&ring, &servers}) {
    Experiment& experiment = *spec->mutable_experiment();
    experiment.mutable_compute()->mutable_emulated()->set_backward_ms(7);
    experiment.mutable_training()->clear_evaluation_interval();
  }
  EXPECT_THAT(LinesOf(ring),
              AllOf(Contains("compute: emulated, 0 ms forward and 7 ms backward"),
                    Contains("worker 0 108 108 108 0 0 0 324")));
  EXPECT_THAT(LinesOf(servers), AllOf(Contains("worker 0 108 108 0 0 0 0 0 0 216"),
                                      Contains("server 0 56 0 56 168 112 0 0 0 392")));
}

TEST(PlanTableTest, WithoutMomentumThereIsNoOptimizerState) {
  JobSpec spec = ServersSpec();
  spec.mutable_experiment()
      ->mutable_training()
      ->mutable_optimizer()
      ->mutable_sgd()
      ->clear_momentum();
  EXPECT_THAT(LinesOf(spec), Contains("server 0 56 0 0 168 224 0 0 0 448"));
}

TEST(PlanTableTest, AdamKeepsTwoFloatsForEachElement) {
  JobSpec ring = RingSpec(), servers = ServersSpec();
  for (JobSpec* const spec : {&ring, &servers}) {
    spec->mutable_experiment()->mutable_training()->mutable_optimizer()->mutable_adam();
  }
  EXPECT_THAT(LinesOf(ring), Contains("worker 1 108 108 216 136 45 0 613"));
  EXPECT_THAT(LinesOf(servers), AllOf(Contains("worker 1 108 108 0 0 0 136 45 0 397"),
                                      Contains("server 0 56 0 112 168 224 0 0 0 560")));
}

TEST(PlanTableTest, WithoutAnIntervalOnlyTheLastStepIsKept) {
  JobSpec spec = RingSpec();
  spec.mutable_experiment()->mutable_training()->clear_evaluation_interval();
  EXPECT_THAT(LinesOf(spec), Contains("worker 0 108 108 108 136 45 108 613"));
}

}  // namespace
}  // namespace psring
