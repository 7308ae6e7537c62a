#include "experiments/traffic_formula.h"

#include <string>
#include <vector>

#include "absl/strings/str_cat.h"
#include "gmock/gmock.h"
#include "google/protobuf/text_format.h"
#include "gtest/gtest.h"

namespace psring {
namespace {

using testing::AllOf;
using testing::Each;
using testing::ElementsAre;
using testing::Field;

// Two buckets: 3 elements of "bias" first, then 7 of "weight".
JobSpec MakeSpec(int workers, int servers) {
  JobSpec spec;
  spec.set_workers(workers);
  spec.set_servers(servers);
  spec.mutable_experiment()->mutable_buckets()->set_cap_bytes(28);
  spec.mutable_experiment()->mutable_buckets()->set_first_cap_bytes(12);
  ParameterLayout layout;
  layout.Add("weight", {7, 1});
  layout.Add("bias", {3});
  DescribeLayout(layout, &spec);
  return spec;
}

JobSpec RingSpec(int workers) {
  JobSpec spec = MakeSpec(workers, 0);
  spec.mutable_arm()->mutable_ring();
  return spec;
}

JobSpec ServersSpec(int workers, int servers) {
  JobSpec spec = MakeSpec(workers, servers);
  spec.mutable_arm()->mutable_parameter_server()->mutable_sync();
  return spec;
}

std::vector<EndpointFormula> TrafficOf(const JobSpec& spec) {
  return StepTraffic(spec, PlanJob(spec));
}

auto Endpoint(const std::string& name, const std::string& role, int64_t out, int64_t in) {
  return AllOf(Field(&EndpointFormula::name, name), Field(&EndpointFormula::role, role),
               Field(&EndpointFormula::out, out), Field(&EndpointFormula::in, in));
}

// The bucket of 3 is cut into 1 + 1 + 1: each rank sends 4 elements and receives 4. That
// of 7 is cut into 3 + 2 + 2: ranks send 14 - (3 + 2), 14 - (2 + 2) and 14 - (2 + 3), and
// receive what their left ones send.
TEST(TrafficFormulaTest, RingByHand) {
  EXPECT_THAT(TrafficOf(RingSpec(3)),
              ElementsAre(Endpoint("worker 0", "worker", 4 * (4 + 9), 4 * (4 + 9)),
                          Endpoint("worker 1", "worker", 4 * (4 + 10), 4 * (4 + 9)),
                          Endpoint("worker 2", "worker", 4 * (4 + 9), 4 * (4 + 10))));
}

// A reduce-scatter and an all-gather, with the bytes of the all-reduce.
TEST(TrafficFormulaTest, AShardedOptimizerMovesTheSameInTwiceAsManyOperations) {
  for (const RingMode::Transport transport : {RingMode::TCP, RingMode::SHARED_MEMORY}) {
    for (const int workers : {1, 2, 3, 5, 12}) {
      JobSpec spec = RingSpec(workers);
      RingMode& ring = *spec.mutable_arm()->mutable_ring();
      ring.set_transport(transport);
      const std::vector<EndpointFormula> usual = TrafficOf(spec);
      ring.set_sharded_optimizer(true);
      const std::vector<EndpointFormula> sharded = TrafficOf(spec);
      ASSERT_EQ(sharded.size(), usual.size());
      for (int rank = 0; rank < workers; ++rank) {
        EXPECT_EQ(sharded[rank].out, usual[rank].out) << "rank " << rank;
        EXPECT_EQ(sharded[rank].in, usual[rank].in) << "rank " << rank;
        EXPECT_EQ(usual[rank].operations, 2);
        EXPECT_EQ(sharded[rank].operations, 4);
      }
    }
  }
}

// Halving-doubling sums small buckets whole, and scatters and gathers chunks.
TEST(TrafficFormulaTest, AShardedOptimizersOperationsHaveFormulasOfTheirOwn) {
  JobSpec spec = RingSpec(4);
  RingMode& ring = *spec.mutable_arm()->mutable_ring();
  ring.set_algorithm(RingMode::HALVING_DOUBLING);
  // Twice 3 and twice 7 elements.
  EXPECT_EQ(TrafficOf(spec)[3].out, 4 * (6 + 14));
  ring.set_sharded_optimizer(true);
  // Chunks of 1, 1, 1, 0 and of 2, 2, 2, 1. Rank 3 scatters those of ranks 0 and 1 to
  // rank 1, that of rank 2 to rank 2, and gathers its own for rank 2, the last two for
  // rank 1.
  EXPECT_EQ(TrafficOf(spec)[3].out, 4 * ((2 + 1) + (0 + 1) + (4 + 2) + (1 + 3)));
}

TEST(TrafficFormulaTest, OperationsOfAStep) {
  EXPECT_EQ(TrafficOf(RingSpec(3))[0].operations, 2);
  // Two servers share each of two buckets.
  const std::vector<EndpointFormula> servers = TrafficOf(ServersSpec(3, 2));
  EXPECT_EQ(servers[2].operations, 4);
  EXPECT_EQ(servers[3].operations, 0) << "a server's steps are the workers'";
}

// By size: the bucket of 3 goes up the tree and down again, with worker 0 as its root,
// that of 7 round the ring as above.
TEST(TrafficFormulaTest, AutoByHand) {
  JobSpec spec = RingSpec(3);
  RingMode& ring = *spec.mutable_arm()->mutable_ring();
  ring.set_algorithm(RingMode::AUTO);
  AlgorithmChoice& small = *ring.add_choices();
  small.set_up_to_bytes(12);
  small.set_algorithm(RingMode::TREE);
  ring.add_choices()->set_algorithm(RingMode::RING);
  EXPECT_THAT(TrafficOf(spec),
              ElementsAre(Endpoint("worker 0", "worker", 4 * (6 + 9), 4 * (6 + 9)),
                          Endpoint("worker 1", "worker", 4 * (3 + 10), 4 * (3 + 9)),
                          Endpoint("worker 2", "worker", 4 * (3 + 9), 4 * (3 + 10))));
}

// Workers send and receive all 10 elements. Server 0 has 2 of 3 and 4 of 7 elements,
// server 1 the others, and each meets 3 workers.
TEST(TrafficFormulaTest, ServersByHand) {
  EXPECT_THAT(TrafficOf(ServersSpec(3, 2)),
              ElementsAre(Endpoint("worker 0", "worker", 40, 40),
                          Endpoint("worker 1", "worker", 40, 40),
                          Endpoint("worker 2", "worker", 40, 40),
                          Endpoint("server 0", "server", 4 * 3 * 6, 4 * 3 * 6),
                          Endpoint("server 1", "server", 4 * 3 * 4, 4 * 3 * 4)));
  EXPECT_THAT(TrafficOf(ServersSpec(3, 2)),
              Each(AllOf(Field(&EndpointFormula::local_out, 0),
                         Field(&EndpointFormula::local_in, 0))));
}

// The same on the hosts of workers 0 and 1: server 0 and worker 0 exchange its 6 elements
// there, server 1 and worker 1 the other 4. Worker 2 has a host of its own.
TEST(TrafficFormulaTest, ColocatedServersByHand) {
  JobSpec spec = ServersSpec(3, 2);
  spec.mutable_experiment()->mutable_cluster()->mutable_hosts()->set_colocated_servers(
      true);
  const std::vector<EndpointFormula> endpoints = TrafficOf(spec);
  EXPECT_THAT(endpoints, ElementsAre(Endpoint("worker 0", "worker", 40, 40),
                                     Endpoint("worker 1", "worker", 40, 40),
                                     Endpoint("worker 2", "worker", 40, 40),
                                     Endpoint("server 0", "server", 72, 72),
                                     Endpoint("server 1", "server", 48, 48)));
  for (const int64_t EndpointFormula::*local :
       {&EndpointFormula::local_out, &EndpointFormula::local_in}) {
    EXPECT_THAT(endpoints,
                ElementsAre(Field(local, 24), Field(local, 16), Field(local, 0),
                            Field(local, 24), Field(local, 16)));
  }
}

// Whole tensors: "weight" of 7 is server 0's where it is by size, and "bias" of 3 server
// 1's; in turn as well; or server 0 has both.
TEST(TrafficFormulaTest, PlacementsByHand) {
  for (const auto placement :
       {ParameterServerMode::BY_TENSOR_SIZE, ParameterServerMode::BY_TENSOR_ROUND_ROBIN,
        ParameterServerMode::SINGLE}) {
    for (const bool colocated : {false, true}) {
      JobSpec spec = ServersSpec(3, 2);
      spec.mutable_arm()->mutable_parameter_server()->set_placement(placement);
      spec.mutable_experiment()
          ->mutable_cluster()
          ->mutable_hosts()
          ->set_colocated_servers(colocated);
      const int64_t first = placement == ParameterServerMode::SINGLE ? 40 : 28;
      const int64_t second = 40 - first;
      const std::vector<EndpointFormula> endpoints = TrafficOf(spec);
      EXPECT_THAT(endpoints,
                  ElementsAre(Endpoint("worker 0", "worker", 40, 40),
                              Endpoint("worker 1", "worker", 40, 40),
                              Endpoint("worker 2", "worker", 40, 40),
                              Endpoint("server 0", "server", 3 * first, 3 * first),
                              Endpoint("server 1", "server", 3 * second, 3 * second)))
          << placement;
      EXPECT_EQ(endpoints[0].operations, 2);
      for (const int64_t EndpointFormula::*local :
           {&EndpointFormula::local_out, &EndpointFormula::local_in}) {
        const int64_t own = colocated ? 1 : 0;
        EXPECT_THAT(endpoints,
                    ElementsAre(Field(local, own * first), Field(local, own * second),
                                Field(local, 0), Field(local, own * first),
                                Field(local, own * second)))
            << placement;
      }
    }
  }
}

JobSpec With(JobSpec spec, const std::string& wire) {
  EXPECT_TRUE(google::protobuf::TextFormat::ParseFromString(
      wire, spec.mutable_arm()->mutable_wire()));
  return spec;
}

// A ring moves half as many bytes, in the algorithm for so many; to servers gradients go
// so, and parameters come back as floats. Slots are of 2 and 1 elements, and of 4 and 3.
TEST(TrafficFormulaTest, OtherWiresByHand) {
  EXPECT_THAT(TrafficOf(With(RingSpec(3), "bf16 {}")),
              ElementsAre(Endpoint("worker 0", "worker", 2 * (4 + 9), 2 * (4 + 9)),
                          Endpoint("worker 1", "worker", 2 * (4 + 10), 2 * (4 + 9)),
                          Endpoint("worker 2", "worker", 2 * (4 + 9), 2 * (4 + 10))));
  const auto with_servers = [](const std::string& wire, int64_t first, int64_t second) {
    JobSpec spec = With(ServersSpec(3, 2), wire);
    spec.mutable_experiment()->mutable_cluster()->mutable_hosts()->set_colocated_servers(
        true);
    const std::vector<EndpointFormula> endpoints = TrafficOf(spec);
    EXPECT_THAT(endpoints,
                ElementsAre(Endpoint("worker 0", "worker", first + second, 40),
                            Endpoint("worker 1", "worker", first + second, 40),
                            Endpoint("worker 2", "worker", first + second, 40),
                            Endpoint("server 0", "server", 4 * 3 * 6, 3 * first),
                            Endpoint("server 1", "server", 4 * 3 * 4, 3 * second)))
        << wire;
    EXPECT_EQ(endpoints[0].local_out, first);
    EXPECT_EQ(endpoints[0].local_in, 24);
    EXPECT_EQ(endpoints[4].local_out, 16);
    EXPECT_EQ(endpoints[4].local_in, second);
  };
  with_servers("fp16 {}", 2 * 6, 2 * 4);
  with_servers("int8 {}", (4 + 2) + (4 + 4), (4 + 1) + (4 + 3));
  with_servers("top_k { share: 0.5 }", 8 * (1 + 2), 8 * (1 + 2));
}

// The bucket of 7 has 28 bytes as floats, and 14 as fp16.
TEST(TrafficFormulaTest, TheAlgorithmGoesByTheBytesOnTheWire) {
  JobSpec spec = With(RingSpec(3), "fp16 {}");
  RingMode& ring = *spec.mutable_arm()->mutable_ring();
  ring.set_algorithm(RingMode::AUTO);
  AlgorithmChoice& small = *ring.add_choices();
  small.set_up_to_bytes(14);
  small.set_algorithm(RingMode::TREE);
  ring.add_choices()->set_algorithm(RingMode::RING);
  EXPECT_THAT(TrafficOf(spec),
              ElementsAre(Endpoint("worker 0", "worker", 2 * 20, 2 * 20),
                          Endpoint("worker 1", "worker", 2 * 10, 2 * 10),
                          Endpoint("worker 2", "worker", 2 * 10, 2 * 10)));
}

// As many servers as workers, and elements that they share evenly: over the network each
// host sends what a rank of a ring does, 2 (N-1)/N of all.
TEST(TrafficFormulaTest, AColocatedServerForEachWorkerSendsWhatARingSends) {
  constexpr int kWorkers = 5;
  const auto of = [](bool servers) {
    JobSpec spec;
    spec.set_workers(kWorkers);
    if (servers) {
      spec.set_servers(kWorkers);
      spec.mutable_arm()->mutable_parameter_server();
      spec.mutable_arm()->mutable_cluster()->mutable_hosts()->set_colocated_servers(true);
    } else {
      spec.mutable_arm()->mutable_ring();
    }
    spec.mutable_experiment()->mutable_buckets()->set_cap_bytes(80);
    spec.mutable_experiment()->mutable_buckets()->set_first_cap_bytes(80);
    ParameterLayout layout;
    layout.Add("weight", {15});
    layout.Add("bias", {20});
    DescribeLayout(layout, &spec);
    return TrafficOf(spec);
  };
  const std::vector<EndpointFormula> ring = of(/*servers=*/false);
  const std::vector<EndpointFormula> servers = of(/*servers=*/true);
  for (int rank = 0; rank < kWorkers; ++rank) {
    const EndpointFormula& worker = servers[rank];
    const EndpointFormula& server = servers[kWorkers + rank];
    EXPECT_EQ(ring[rank].out, 2 * (kWorkers - 1) * 35 * 4 / kWorkers);
    EXPECT_EQ(worker.out - worker.local_out + server.out - server.local_out,
              ring[rank].out);
    EXPECT_EQ(worker.in - worker.local_in + server.in - server.local_in, ring[rank].in);
  }
}

TEST(TrafficFormulaTest, OneProcessExchangesNothing) {
  JobSpec local = MakeSpec(1, 0);
  local.mutable_arm()->mutable_local();
  EXPECT_THAT(TrafficOf(local), ElementsAre(Endpoint("worker 0", "worker", 0, 0)));
  EXPECT_THAT(TrafficOf(RingSpec(1)), ElementsAre(Endpoint("worker 0", "worker", 0, 0)));
}

// 4 servers are more than the first bucket has elements.
TEST(TrafficFormulaTest, WhatIsSentIsReceived) {
  std::vector<JobSpec> specs;
  for (int workers = 1; workers <= 5; ++workers) {
    specs.push_back(RingSpec(workers));
    for (int servers = 1; servers <= 4; ++servers) {
      specs.push_back(ServersSpec(workers, servers));
    }
  }
  for (const JobSpec& spec : specs) {
    const int64_t bytes = PlanJob(spec).layout.bytes();
    int64_t out = 0;
    int64_t in = 0;
    for (const EndpointFormula& endpoint : TrafficOf(spec)) {
      out += endpoint.out;
      in += endpoint.in;
    }
    // N workers and the servers send N * M each; all ranks of a ring together 2(N-1) * M.
    const int64_t expected = spec.servers() > 0 ? 2 * spec.workers() * bytes
                                                : 2 * (spec.workers() - 1) * bytes;
    EXPECT_EQ(out, expected) << spec.workers() << " + " << spec.servers();
    EXPECT_EQ(in, expected) << spec.workers() << " + " << spec.servers();
  }
}

}  // namespace
}  // namespace psring
