#include "experiments/traffic_formula.h"

#include <string>
#include <vector>

#include "absl/strings/str_cat.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"

namespace psring {
namespace {

using testing::AllOf;
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
