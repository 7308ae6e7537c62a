#include "ring/ring_exchange.h"

#include <cstdint>
#include <memory>
#include <optional>
#include <span>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "common/arithmetic.h"
#include "common/computed_step_constants.h"
#include "common/device.h"
#include "common/errors.h"
#include "common/optimizer.h"
#include "common/partition.h"
#include "common/ring_order.h"
#include "common/schedule.h"
#include "common/status_macros.h"
#include "common/status_matchers.h"
#include "common/time_source.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "proto/experiment.pb.h"
#include "ring/algorithm.h"
#include "ring/operation_header.h"
#include "ring/ring_test_util.h"
#include "ring/shared_memory_collectives.h"
#include "ring/shared_memory_segment.h"
#include "ring/shared_memory_test_util.h"
#include "ring/shared_memory_traffic.h"

namespace psring {
namespace {

using testing::HasSubstr;

constexpr int64_t kSteps = 5;

// Two buckets: c and b, then a.
ParameterLayout TestLayout() {
  ParameterLayout layout;
  layout.Add("a", {41});
  layout.Add("b", {5, 7});
  layout.Add("c", {3});
  return layout;
}

BucketPlan TestPlan() {
  return PlanBuckets(TestLayout(), /*cap_bytes=*/200, /*first_cap_bytes=*/160);
}

Optimizer TestOptimizer() {
  Optimizer optimizer;
  optimizer.mutable_sgd()->set_learning_rate(0.1f);
  optimizer.mutable_sgd()->set_momentum(0.9f);
  optimizer.mutable_sgd()->set_weight_decay(0.01f);
  optimizer.mutable_schedule()->set_warmup_steps(kSteps);
  return optimizer;
}

std::vector<float> InitialParameters(int rank) {
  std::vector<float> parameters(TestLayout().count());
  for (size_t i = 0; i < parameters.size(); ++i) {
    parameters[i] = 0.3f * static_cast<float>(i) - static_cast<float>(rank);
  }
  return parameters;
}

// Depends on the parameter, so that an error in one step shows in all later ones.
float Gradient(int rank, int64_t step, int64_t index, float parameter) {
  return 0.37f * parameter / static_cast<float>(rank + 2) +
         0.01f * static_cast<float>(index - 5 * step) * static_cast<float>(rank + 1);
}

DeviceSpan SpanOf(std::vector<float>& values) {
  return {.data = values.data(), .count = static_cast<int64_t>(values.size())};
}

// The same training in one loop, element by element.
std::vector<float> TrainSerially(int ranks) {
  const BucketPlan plan = TestPlan();
  std::vector<float> parameters = InitialParameters(0);
  std::vector<SliceOptimizer> optimizers;
  for (const Bucket& bucket : plan.buckets) {
    optimizers.emplace_back(TestOptimizer(), bucket.range.count);
  }
  for (int64_t step = 0; step < kSteps; ++step) {
    for (const Bucket& bucket : plan.buckets) {
      std::vector<float> mean(bucket.range.count);
      for (int chunk = 0; chunk < ranks; ++chunk) {
        const Range range = PartitionRange(bucket.range.count, ranks, chunk);
        for (int64_t i = range.begin; i < range.end(); ++i) {
          const int64_t index = bucket.range.begin + i;
          const auto term = [&](int position) {
            return Gradient(RingFoldRank(chunk, position, ranks), step, index,
                            parameters[index]);
          };
          mean[i] = term(0);
          for (int position = 1; position < ranks; ++position) mean[i] += term(position);
          mean[i] *= MeanFactor(ranks);
        }
      }
      optimizers[bucket.index].Apply(
          StepConstantsAt(TestOptimizer(), kSteps, step), 0,
          std::span(parameters).subspan(bucket.range.begin, bucket.range.count), mean);
    }
  }
  return parameters;
}

// One rank: the exchange with the buffers that are bound to it.
struct Replica {
  Replica(int rank, int ranks, bool sharded, DeviceBuffer own_gradients,
          std::unique_ptr<Collectives> collectives)
      : rank(rank),
        parameters(InitialParameters(rank)),
        buffer(std::move(own_gradients)),
        gradients(buffer.span().host()),
        exchange(std::make_unique<RingExchange>(
            ranks, plan, TestOptimizer(),
            std::make_shared<ComputedStepConstants>(TestOptimizer(), kSteps),
            std::move(collectives), &time,
            RingExchangeOptions{.shard = sharded ? std::optional(rank) : std::nullopt})) {
  }

  absl::Status Bind() { return exchange->Bind(SpanOf(parameters), buffer.span()); }

  absl::Status LaunchAll(int64_t step) {
    for (const Bucket& bucket : plan.buckets) {
      for (int64_t i = bucket.range.begin; i < bucket.range.end(); ++i) {
        gradients[i] = Gradient(rank, step, i, parameters[i]);
      }
      RETURN_IF_ERROR(exchange->Launch(step, bucket, ReadyEvent::Happened()));
    }
    return absl::OkStatus();
  }

  const int rank;
  const RealTime time;
  const BucketPlan plan = TestPlan();
  std::vector<float> parameters;
  const DeviceBuffer buffer;  // Of the gradients.
  const std::span<float> gradients;
  std::unique_ptr<RingExchange> exchange;
};

using Replicas = std::vector<std::unique_ptr<Replica>>;

DeviceBuffer MakeBuffer(int64_t count) {
  auto values = std::make_shared<std::vector<float>>(count);
  return DeviceBuffer(SpanOf(*values), [values] {});
}

template <TransportKind kKind, bool kSharded>
Replicas LinkedReplicas(int ranks) {
  auto collectives = MakeCollectives(kKind, {.order = RingOrder(ranks)});
  Replicas replicas;
  for (int rank = 0; rank < ranks; ++rank) {
    replicas.push_back(std::make_unique<Replica>(rank, ranks, kSharded,
                                                 MakeBuffer(TestLayout().count()),
                                                 std::move(collectives[rank])));
  }
  return replicas;
}

// Their gradients lie in the segment.
template <bool kSharded>
Replicas SharedMemoryReplicas(int ranks) {
  const SharedMemoryJob job = UniqueJob(ranks, TestLayout().count());
  Replicas replicas(ranks);
  const auto statuses = RunRanks(ranks, [&](int rank) -> absl::Status {
    ASSIGN_OR_RETURN(const std::shared_ptr<SharedMemorySegment> segment,
                     SharedMemorySegment::Open(ForRank(job, rank), absl::Minutes(5)));
    replicas[rank] = std::make_unique<Replica>(
        rank, ranks, kSharded, segment->buffer(),
        std::make_unique<SharedMemoryCollectives>(
            segment, SharedMemoryOptions{.order = RingOrder(ranks)}));
    return absl::OkStatus();
  });
  EXPECT_THAT(statuses, testing::Each(IsOk()));
  return replicas;
}

// How ranks are connected, and what moves then: as much whether the optimizer is sharded
// or not.
struct Carrier {
  const char* name;
  Replicas (*make)(int ranks);
  OperationBytes (*payload)(OperationKind kind, int64_t count, int position, int ranks);
  bool has_wire = true;
  int operations = 2;  // Of a step, on two buckets.
};

OperationBytes RingPayload(OperationKind kind, int64_t count, int position, int ranks) {
  return PayloadBytes(RingMode::RING, kind, count, position, ranks);
}

class RingExchangeTest : public testing::TestWithParam<Carrier> {
 protected:
  static Replicas MakeReplicas(int ranks) { return GetParam().make(ranks); }
};

TEST_P(RingExchangeTest, TrainsLikeOneSerialLoop) {
  ASSERT_EQ(TestPlan().buckets.size(), 2u);
  for (const int ranks : {1, 2, 3, 4}) {
    const auto replicas = MakeReplicas(ranks);
    const auto statuses = RunRanks(ranks, [&](int rank) -> absl::Status {
      RETURN_IF_ERROR(replicas[rank]->Bind());
      for (int64_t step = 0; step < kSteps; ++step) {
        const absl::Duration start = replicas[rank]->time.Elapsed();
        RETURN_IF_ERROR(replicas[rank]->LaunchAll(step));
        ASSIGN_OR_RETURN(const StepReport report, replicas[rank]->exchange->Finish(step));
        EXPECT_FALSE(report.finished);
        EXPECT_EQ(report.operations, GetParam().operations);
        EXPECT_EQ(report.bucket_done.size(), 2u);
        EXPECT_LE(start, report.bucket_done[0]);
        EXPECT_LE(report.bucket_done[0], report.bucket_done[1]);
        EXPECT_LE(report.bucket_done[1], replicas[rank]->time.Elapsed());
        EXPECT_EQ(report.bucket_working.size(), 2u);
        for (const absl::Duration working : report.bucket_working) {
          EXPECT_EQ(working > absl::ZeroDuration(), ranks > 1);
          EXPECT_LE(working, report.bucket_done[1] - start);
        }
      }
      return absl::OkStatus();
    });
    ASSERT_THAT(statuses, testing::Each(IsOk()));
    const std::vector<uint32_t> expected = Bits(TrainSerially(ranks));
    for (int rank = 0; rank < ranks; ++rank) {
      EXPECT_EQ(Bits(replicas[rank]->parameters), expected)
          << "rank " << rank << " of " << ranks;
    }
  }
}

TEST_P(RingExchangeTest, TrafficIsTheFormula) {
  constexpr int kRanks = 3;
  const auto replicas = MakeReplicas(kRanks);
  const auto statuses = RunRanks(kRanks, [&](int rank) -> absl::Status {
    RETURN_IF_ERROR(replicas[rank]->Bind());
    for (int64_t step = 0; step < kSteps; ++step) {
      RETURN_IF_ERROR(replicas[rank]->LaunchAll(step));
      RETURN_IF_ERROR(replicas[rank]->exchange->Finish(step).status());
    }
    return absl::OkStatus();
  });
  ASSERT_THAT(statuses, testing::Each(IsOk()));
  for (int rank = 0; rank < kRanks; ++rank) {
    OperationBytes step_bytes;
    for (const Bucket& bucket : TestPlan().buckets) {
      const OperationBytes bytes =
          GetParam().payload(OperationKind::kAllReduce, bucket.range.count, rank, kRanks);
      step_bytes.out += bytes.out;
      step_bytes.in += bytes.in;
    }
    const OperationBytes initial =
        GetParam().payload(OperationKind::kBroadcast, TestLayout().count(), rank, kRanks);
    const ExchangeTraffic traffic = replicas[rank]->exchange->traffic();
    EXPECT_EQ(traffic.payload_out, kSteps * step_bytes.out);
    EXPECT_EQ(traffic.payload_in, kSteps * step_bytes.in);
    EXPECT_EQ(traffic.initial_out, initial.out);
    EXPECT_EQ(traffic.initial_in, initial.in);
    if (!GetParam().has_wire) {
      EXPECT_EQ(traffic.wire_out, std::nullopt);
      EXPECT_EQ(traffic.wire_in, std::nullopt);
      EXPECT_EQ(traffic.awaiting_bytes, std::nullopt);
      EXPECT_EQ(traffic.awaiting_room, std::nullopt);
      EXPECT_EQ(traffic.retransmissions, std::nullopt);
      continue;
    }
    EXPECT_GE(traffic.awaiting_bytes, absl::ZeroDuration());
    EXPECT_GE(traffic.awaiting_room, absl::ZeroDuration());
    EXPECT_GE(traffic.retransmissions, 0);
    EXPECT_GT(traffic.wire_out, traffic.payload_out + traffic.initial_out);
    EXPECT_GT(traffic.wire_in, traffic.payload_in + traffic.initial_in);
  }
}

TEST_P(RingExchangeTest, BindGivesEveryRankTheFirstOnesParameters) {
  const auto replicas = MakeReplicas(3);
  ASSERT_THAT(RunRanks(3, [&](int rank) { return replicas[rank]->Bind(); }),
              testing::Each(IsOk()));
  for (const auto& replica : replicas) {
    EXPECT_EQ(Bits(replica->parameters), Bits(InitialParameters(0)));
  }
}

TEST_P(RingExchangeTest, AbortDuringFinishReachesBothSides) {
  const auto replicas = MakeReplicas(2);
  ASSERT_THAT(RunRanks(2, [&](int rank) { return replicas[rank]->Bind(); }),
              testing::Each(IsOk()));
  Replica& aborted = *replicas[0];
  ASSERT_OK(aborted.LaunchAll(0));  // Rank 1 never does, so Finish has to wait.
  const auto statuses = RunRanks(2, [&](int thread) {
    if (thread == 0) return aborted.exchange->Finish(0).status();
    aborted.exchange->Abort(absl::CancelledError("enough"));
    return absl::OkStatus();
  });
  const auto is_reason = StatusIs(absl::StatusCode::kCancelled, "enough");
  EXPECT_THAT(statuses[0], is_reason);
  EXPECT_THAT(aborted.LaunchAll(0), is_reason);
  EXPECT_THAT(aborted.exchange->Finish(0), is_reason);

  // Its neighbour finds the connection closed, at once or while it waits.
  absl::Status neighbour = replicas[1]->LaunchAll(0);
  if (neighbour.ok()) neighbour = replicas[1]->exchange->Finish(0).status();
  EXPECT_THAT(neighbour,
              StatusIs(absl::StatusCode::kUnavailable, HasSubstr("worker 0 gave up")));
}

TEST_P(RingExchangeTest, TheErrorOfAPeerReachesFinishAndEveryLaterCall) {
  const auto replicas = MakeReplicas(2);
  ASSERT_THAT(RunRanks(2, [&](int rank) { return replicas[rank]->Bind(); }),
              testing::Each(IsOk()));
  replicas[1]->exchange.reset();
  Replica& survivor = *replicas[0];
  absl::Status status = survivor.LaunchAll(0);
  if (status.ok()) status = survivor.exchange->Finish(0).status();
  EXPECT_THAT(status,
              StatusIs(absl::StatusCode::kUnavailable, HasSubstr("worker 1 gave up")));
  EXPECT_EQ(ExitCodeOf(status), ExitCode::kPeerLost);
  EXPECT_EQ(survivor.LaunchAll(1), status);
  EXPECT_EQ(survivor.exchange->Finish(1).status(), status);
  EXPECT_EQ(survivor.Bind(), status);
}

TEST_P(RingExchangeTest, WithoutConstantsAStepEndsTheExchange) {
  const auto replicas = MakeReplicas(2);
  const auto statuses = RunRanks(2, [&](int rank) -> absl::Status {
    RETURN_IF_ERROR(replicas[rank]->Bind());
    for (int64_t step = 0;; ++step) {
      RETURN_IF_ERROR(replicas[rank]->LaunchAll(step));
      RETURN_IF_ERROR(replicas[rank]->exchange->Finish(step).status());
    }
  });
  // Each of them may hear of the end of the other first.
  EXPECT_THAT(statuses, testing::Contains(StatusIs(absl::StatusCode::kOutOfRange,
                                                   HasSubstr("a run of 5 updates"))));
  for (int rank = 0; rank < 2; ++rank) {
    EXPECT_EQ(replicas[rank]->exchange->Finish(kSteps).status(), statuses[rank]);
  }
}

TEST_P(RingExchangeTest, BindFailsWithoutItsPeer) {
  const auto replicas = MakeReplicas(2);
  replicas[1]->exchange.reset();
  EXPECT_THAT(replicas[0]->Bind(),
              StatusIs(absl::StatusCode::kUnavailable, HasSubstr("worker 1 gave up")));
}

TEST_P(RingExchangeTest, CallsOutOfOrderAreRefusedAndChangeNothing) {
  const auto replicas = MakeReplicas(1);
  Replica& replica = *replicas[0];
  RingExchange& exchange = *replica.exchange;
  const Bucket& first = replica.plan.buckets[0];
  const auto is_refused = StatusIs(absl::StatusCode::kFailedPrecondition, testing::_);
  const auto launch = [&](int64_t step, const Bucket& bucket) {
    return exchange.Launch(step, bucket, ReadyEvent::Happened());
  };

  EXPECT_THAT(launch(0, first), is_refused);  // Not bound.
  std::vector<float> short_buffer(3);
  EXPECT_THAT(exchange.Bind(SpanOf(short_buffer), replica.buffer.span()),
              StatusIs(absl::StatusCode::kInvalidArgument, testing::_));
  ASSERT_OK(replica.Bind());
  EXPECT_THAT(replica.Bind(), is_refused);

  EXPECT_THAT(launch(0, replica.plan.buckets[1]), is_refused);
  Bucket shorter = first;
  --shorter.range.count;
  EXPECT_THAT(launch(0, shorter),
              StatusIs(absl::StatusCode::kInvalidArgument, testing::_));
  ASSERT_OK(launch(0, first));
  EXPECT_THAT(exchange.Finish(0), is_refused);  // One bucket is missing.
  EXPECT_THAT(launch(1, replica.plan.buckets[1]), is_refused);
  ASSERT_OK(launch(0, replica.plan.buckets[1]));
  EXPECT_THAT(launch(0, replica.plan.buckets[1]), is_refused);
  EXPECT_THAT(exchange.Finish(1), is_refused);
  EXPECT_OK(exchange.Finish(0));
  EXPECT_THAT(launch(0, first), is_refused);
  EXPECT_OK(replica.LaunchAll(1));
  EXPECT_OK(exchange.Finish(1));
}

INSTANTIATE_TEST_SUITE_P(
    Carriers, RingExchangeTest,
    testing::Values(
        Carrier{"InProcess", &LinkedReplicas<TransportKind::kInProcess, false>,
                &RingPayload},
        Carrier{"Tcp", &LinkedReplicas<TransportKind::kTcp, false>, &RingPayload},
        Carrier{"SharedMemory", &SharedMemoryReplicas<false>, &SharedMemoryPayload,
                /*has_wire=*/false},
        Carrier{"ShardedInProcess", &LinkedReplicas<TransportKind::kInProcess, true>,
                &RingPayload, /*has_wire=*/true, /*operations=*/4},
        Carrier{"ShardedTcp", &LinkedReplicas<TransportKind::kTcp, true>, &RingPayload,
                /*has_wire=*/true, /*operations=*/4},
        Carrier{"ShardedSharedMemory", &SharedMemoryReplicas<true>, &SharedMemoryPayload,
                /*has_wire=*/false, /*operations=*/4}),
    [](const auto& info) { return info.param.name; });

}  // namespace
}  // namespace psring
