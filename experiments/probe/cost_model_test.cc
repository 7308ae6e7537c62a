#include "experiments/probe/cost_model.h"

#include "common/status_matchers.h"
#include "experiments/probe/probe_test_util.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"

namespace psring {
namespace {

using testing::HasSubstr;

constexpr ArithmeticRates kRates = {.add = 2400, .apply = 3200};

// On links of 1,000 bytes/s out, 2,000 in and 10 ms.
ExchangeCost CostOf(const JobSpec& spec) {
  const auto cost =
      PredictExchange(spec, {Measured(KindOfProbe(spec), 1000, 2000)}, kRates);
  EXPECT_OK(cost);
  return cost.value_or(ExchangeCost());
}

JobSpec Collective(RingMode::Algorithm algorithm, int workers) {
  JobSpec spec = ProbeSpec(workers, 0);
  spec.mutable_arm()->mutable_ring()->set_algorithm(algorithm);
  return spec;
}

TEST(CostModelTest, Ring) {
  const ExchangeCost cost = CostOf(Collective(RingMode::RING, 4));
  EXPECT_DOUBLE_EQ(cost.latency, 2 * 6 * 0.01);  // Two buckets, 2 (N-1) each.
  EXPECT_DOUBLE_EQ(cost.transfer, 1.5 * 3.2);    // 2 (N-1)/N M beta.
  EXPECT_DOUBLE_EQ(cost.arithmetic, 0.75 * 3200 / 2400);
  EXPECT_DOUBLE_EQ(cost.total(), cost.latency + cost.transfer + cost.arithmetic);
}

TEST(CostModelTest, OtherAlgorithms) {
  const ExchangeCost doubling = CostOf(Collective(RingMode::HALVING_DOUBLING, 4));
  EXPECT_DOUBLE_EQ(doubling.latency, 2 * 2 * 0.01);
  EXPECT_DOUBLE_EQ(doubling.transfer, 2 * 3.2);  // Small buckets: L m beta.
  EXPECT_DOUBLE_EQ(doubling.arithmetic, 2 * 3200.0 / 2400);
  const ExchangeCost pairs = CostOf(Collective(RingMode::HALVING_DOUBLING, 5));
  EXPECT_DOUBLE_EQ(pairs.latency, 2 * 4 * 0.01);
  EXPECT_DOUBLE_EQ(pairs.arithmetic, 3 * 3200.0 / 2400);

  // The root takes in 2 M and gives out 2 M, one after the other.
  const ExchangeCost tree = CostOf(Collective(RingMode::TREE, 4));
  EXPECT_DOUBLE_EQ(tree.latency, 2 * 4 * 0.01);
  EXPECT_DOUBLE_EQ(tree.transfer, 2 * 1.6 + 2 * 3.2);
  EXPECT_DOUBLE_EQ(tree.arithmetic, 2 * 3200.0 / 2400);
  const ExchangeCost star = CostOf(Collective(RingMode::GATHER_BROADCAST, 4));
  EXPECT_DOUBLE_EQ(star.latency, 2 * 2 * 0.01);
  EXPECT_DOUBLE_EQ(star.transfer, 3 * 1.6 + 3 * 3.2);
  EXPECT_DOUBLE_EQ(star.arithmetic, 3 * 3200.0 / 2400);
}

// A reduce-scatter and an all-gather of each of the two buckets.
TEST(CostModelTest, AShardedOptimizer) {
  const auto cost_of = [](RingMode::Algorithm algorithm, int workers) {
    JobSpec spec = Collective(algorithm, workers);
    spec.mutable_arm()->mutable_ring()->set_sharded_optimizer(true);
    return CostOf(spec);
  };
  const ExchangeCost ring = cost_of(RingMode::RING, 4);
  EXPECT_DOUBLE_EQ(ring.latency, 2 * 6 * 0.01);
  EXPECT_DOUBLE_EQ(ring.transfer, 1.5 * 3.2);
  EXPECT_DOUBLE_EQ(ring.arithmetic, 0.75 * 3200 / 2400);

  // No bucket is too small for halving.
  const ExchangeCost halving = cost_of(RingMode::HALVING_DOUBLING, 4);
  EXPECT_DOUBLE_EQ(halving.latency, 2 * 4 * 0.01);
  EXPECT_DOUBLE_EQ(halving.transfer, 1.5 * 3.2);
  EXPECT_DOUBLE_EQ(halving.arithmetic, 0.75 * 3200 / 2400);
  const ExchangeCost pairs = cost_of(RingMode::HALVING_DOUBLING, 5);
  EXPECT_DOUBLE_EQ(pairs.latency, 2 * (4 + 4) * 0.01);
  EXPECT_DOUBLE_EQ(pairs.arithmetic, 1.75 * 3200 / 2400);

  // Position 2 has one child. It sends M up and 1/4 M down, then 1/2 M up and 3/4 M down;
  // it receives M from below and 1/2 M from above, then 1/4 M and 1/2 M.
  const ExchangeCost tree = cost_of(RingMode::TREE, 4);
  EXPECT_DOUBLE_EQ(tree.latency, 2 * 8 * 0.01);
  EXPECT_DOUBLE_EQ(tree.transfer, 2.5 * 3.2 + 2.25 * 1.6);
  EXPECT_DOUBLE_EQ(tree.arithmetic, 2 * 3200.0 / 2400);
  // The root gives out 3/4 M, then 9/4 M; it takes in 3 M, then 3/4 M.
  const ExchangeCost star = cost_of(RingMode::GATHER_BROADCAST, 4);
  EXPECT_DOUBLE_EQ(star.latency, 2 * 4 * 0.01);
  EXPECT_DOUBLE_EQ(star.transfer, 3 * 3.2 + 3.75 * 1.6);
  EXPECT_DOUBLE_EQ(star.arithmetic, 3 * 3200.0 / 2400);
}

TEST(CostModelTest, HalvingOfALargeBucket) {
  JobSpec spec = Collective(RingMode::HALVING_DOUBLING, 4);
  spec.clear_tensors();
  ParameterLayout layout;
  layout.Add("weight", {40'000});  // 160,000 bytes, one bucket.
  DescribeLayout(layout, &spec);
  const ExchangeCost cost = CostOf(spec);
  EXPECT_DOUBLE_EQ(cost.latency, 4 * 0.01);
  EXPECT_DOUBLE_EQ(cost.transfer, 1.5 * 160);
  EXPECT_DOUBLE_EQ(cost.arithmetic, 0.75 * 160'000 / 2400);
}

TEST(CostModelTest, Servers) {
  const ExchangeCost one = CostOf(ProbeSpec(2, 1));
  EXPECT_DOUBLE_EQ(one.latency, 2 * 0.01);
  // N M out, and the last bucket's answers, which wait for its gradients.
  EXPECT_DOUBLE_EQ(one.transfer, 6.4 + 2 * 2.4);
  EXPECT_DOUBLE_EQ(one.arithmetic, 6400.0 / 3200);
  const ExchangeCost two = CostOf(ProbeSpec(2, 2));
  EXPECT_DOUBLE_EQ(two.transfer, 3.2 + 2.4);
  EXPECT_DOUBLE_EQ(two.arithmetic, 3200.0 / 3200);
}

// Half of 3,200 bytes to the other host by each of the two processes, and the answer of
// the last bucket to one worker.
TEST(CostModelTest, ServersBesideWorkers) {
  JobSpec spec = ProbeSpec(2, 2);
  HostsOfProbe(&spec).set_colocated_servers(true);
  const ExchangeCost cost = CostOf(spec);
  EXPECT_DOUBLE_EQ(cost.transfer, 3.2 + 1.2);
  EXPECT_DOUBLE_EQ(cost.arithmetic, 3200.0 / 3200);
}

TEST(CostModelTest, ADelayIsPartOfEachMessage) {
  JobSpec ring = Collective(RingMode::RING, 4);
  HostsOfProbe(&ring).set_delay_ms(20);
  EXPECT_DOUBLE_EQ(CostOf(ring).latency, 2 * 6 * (0.01 + 0.04));
  JobSpec servers = ProbeSpec(2, 1);
  HostLink& link = *HostsOfProbe(&servers).add_links();
  link.set_host("worker 1");
  link.set_delay_ms(20);
  link.set_send_mbit_s(100);
  link.set_receive_mbit_s(100);
  EXPECT_DOUBLE_EQ(CostOf(servers).latency, 2 * (0.01 + 0.02));
}

TEST(CostModelTest, NoneWhereNothingMovesOrNothingWasProbed) {
  const JobSpec alone = ProbeSpec(1, 0);
  EXPECT_THAT(PredictExchange(alone, {Measured(KindOfProbe(alone), 1, 1)}, kRates),
              StatusIs(absl::StatusCode::kNotFound, HasSubstr("nothing moves")));
  EXPECT_THAT(PredictExchange(ProbeSpec(2, 0), {}, kRates),
              StatusIs(absl::StatusCode::kNotFound, HasSubstr("was not probed")));
  ProbedLink busy = Measured(KindOfProbe(ProbeSpec(2, 0)), 1, 1);
  busy.idle = 0;
  EXPECT_THAT(PredictExchange(ProbeSpec(2, 0), {busy}, kRates),
              StatusIs(absl::StatusCode::kFailedPrecondition, HasSubstr("is void")));
}

}  // namespace
}  // namespace psring
