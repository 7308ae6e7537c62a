// The whole parameter-server path, workers as threads: bits, bytes and errors.
#include "worker/parameter_server_exchange.h"

#include <memory>
#include <string>
#include <thread>
#include <tuple>
#include <vector>

#include "absl/strings/str_cat.h"
#include "common/arithmetic.h"
#include "common/errors.h"
#include "common/optimizer.h"
#include "common/ring_order.h"
#include "common/schedule.h"
#include "common/status_matchers.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "tests/exchange_test_util.h"
#include "tests/parameter_server_cluster.h"

namespace psring {
namespace {

using testing::HasSubstr;

// The parameters after each step, one addition at a time.
std::vector<std::vector<float>> Reference(const BucketPlan& plan, int workers,
                                          Sync::Order order, int64_t steps) {
  std::vector<float> parameters(Count(plan));
  for (int64_t i = 0; i < Count(plan); ++i) parameters[i] = InitialParameter(i);
  SliceOptimizer optimizer(TestOptimizer(), Count(plan));
  std::vector<std::vector<float>> after;
  for (int64_t step = 0; step < steps; ++step) {
    std::vector<float> mean(Count(plan));
    for (const Bucket& bucket : plan.buckets) {
      for (int chunk = 0; chunk < workers; ++chunk) {
        const Range part = PartitionRange(bucket.range.count, workers, chunk);
        const int fold = order == Sync::RING ? chunk : workers - 1;
        for (int64_t k = part.begin; k < part.end(); ++k) {
          const int64_t i = bucket.range.begin + k;
          float sum = Gradient(RingFoldRank(fold, 0, workers), step, i, parameters[i]);
          for (int position = 1; position < workers; ++position) {
            const int rank = RingFoldRank(fold, position, workers);
            sum = sum + Gradient(rank, step, i, parameters[i]);
          }
          mean[i] = sum * MeanFactor(workers);
        }
      }
    }
    optimizer.Apply(StepConstantsAt(TestOptimizer(), steps, step), 0, parameters, mean);
    after.push_back(parameters);
  }
  return after;
}

// The modes whose rounds are everybody's.
struct RoundMode {
  const char* name;
  const char* mode;
  Sync::Order order;
};
const RoundMode kSyncRing = {"SyncRing", "sync { order: RING }", Sync::RING};
const RoundMode kSyncRank = {"SyncRank", "sync { order: RANK }", Sync::RANK};
const RoundMode kBackup = {"BackupWithoutSpares", "backup { spares: 0 }", Sync::RING};

using EqualityParam = std::tuple<ChannelKind, int, int, RoundMode>;

class ExchangeEqualityTest : public testing::TestWithParam<EqualityParam> {};

TEST_P(ExchangeEqualityTest, ParametersEqualTheSerialReferenceAndBytesTheFormulas) {
  constexpr int64_t kSteps = 5;
  const auto& [kind, workers, servers, mode] = GetParam();
  const BucketPlan buckets = TestBuckets();
  ParameterServerCluster cluster({.kind = kind,
                                  .buckets = buckets,
                                  .servers = servers,
                                  .workers = workers,
                                  .mode = ModeOf(mode.mode),
                                  .optimizer = TestOptimizer(),
                                  .steps = kSteps});
  const auto reference = Reference(buckets, workers, mode.order, kSteps);
  auto all = MakeWorkers(workers, buckets, cluster);
  RunWorkers(all, [&](Worker& worker) {
    ASSERT_OK(worker.Bind());
    for (int64_t step = 0; step < kSteps; ++step) {
      const absl::Duration start = worker.time.Elapsed();
      ASSERT_OK(worker.LaunchAll(step));
      ASSERT_OK_AND_ASSIGN(const StepReport report, worker.exchange.Finish(step));
      ASSERT_EQ(report.bucket_done.size(), buckets.buckets.size());
      for (const absl::Duration done : report.bucket_done) {
        EXPECT_LE(start, done);
        EXPECT_LE(done, worker.time.Elapsed());
      }
      EXPECT_EQ(report.finished, step + 1 == kSteps);
      EXPECT_EQ(report.version_skew, 0);
      EXPECT_EQ(report.optimizer, absl::ZeroDuration());
      ASSERT_EQ(Bits(worker.parameters), Bits(reference[step]))
          << "rank " << worker.rank << " after step " << step;
    }
  });

  const int64_t step_bytes = WorkerStepBytes(cluster.plan());
  for (const auto& worker : all) {
    const ExchangeTraffic traffic = worker->exchange.traffic();
    EXPECT_EQ(traffic.payload_out, kSteps * step_bytes);
    EXPECT_EQ(traffic.payload_in, kSteps * step_bytes);
    EXPECT_EQ(traffic.initial_out, worker->rank == 0 ? step_bytes : 0);
    EXPECT_EQ(traffic.initial_in, step_bytes);
    const int64_t local =
        worker->rank < servers ? ServerStepBytes(cluster.plan(), worker->rank, 1) : 0;
    EXPECT_EQ(traffic.local_payload_out, kSteps * local);
    EXPECT_EQ(traffic.local_payload_in, kSteps * local);
    EXPECT_EQ(traffic.local_other_out, worker->rank == 0 ? local : 0);
    EXPECT_EQ(traffic.local_other_in, local);
  }
  for (int server = 0; server < servers; ++server) {
    const int64_t server_bytes = ServerStepBytes(cluster.plan(), server, workers);
    const ExchangeTraffic traffic = cluster.shard(server).traffic();
    EXPECT_EQ(traffic.payload_in, kSteps * server_bytes);
    EXPECT_EQ(traffic.payload_out, kSteps * server_bytes);
    EXPECT_EQ(traffic.initial_in, server_bytes / workers);
    EXPECT_EQ(traffic.initial_out, server_bytes);
    const int64_t local = server < workers ? server_bytes / workers : 0;
    EXPECT_EQ(traffic.local_payload_in, kSteps * local);
    EXPECT_EQ(traffic.local_payload_out, kSteps * local);
    EXPECT_EQ(traffic.local_other_in, server == 0 ? local : 0);
    EXPECT_EQ(traffic.local_other_out, local);
  }
}

std::string EqualityName(const testing::TestParamInfo<EqualityParam>& info) {
  const auto& [kind, workers, servers, mode] = info.param;
  return absl::StrCat(ChannelKindName(kind), workers, "Workers", servers, "Servers",
                      mode.name);
}

INSTANTIATE_TEST_SUITE_P(All, ExchangeEqualityTest,
                         testing::Combine(testing::Values(ChannelKind::kInProcess,
                                                          ChannelKind::kGrpc,
                                                          ChannelKind::kPlainClient,
                                                          ChannelKind::kPlainServer),
                                          testing::Values(1, 2, 4),
                                          testing::Values(1, 2, 3),
                                          testing::Values(kSyncRing, kSyncRank, kBackup)),
                         EqualityName);

class ExchangeErrorTest : public testing::TestWithParam<ChannelKind> {
 protected:
  ExchangeErrorTest()
      : buckets_(TestBuckets()),
        cluster_({.kind = GetParam(),
                  .buckets = buckets_,
                  .servers = 2,
                  .workers = 2,
                  .mode = ModeOf("sync { order: RING }"),
                  .optimizer = TestOptimizer()}),
        workers_(MakeWorkers(2, buckets_, cluster_)) {}
  void AwaitAllParked() {
    const int64_t slots = static_cast<int64_t>(cluster_.plan().slots.size());
    while (cluster_.parked_pulls() != slots) std::this_thread::yield();
  }

  const BucketPlan buckets_;
  ParameterServerCluster cluster_;
  std::vector<std::unique_ptr<Worker>> workers_;
};

TEST_P(ExchangeErrorTest, AbortEndsBindAndEveryLaterCall) {
  Worker& worker = *workers_[1];
  std::thread aborter([&] {
    AwaitAllParked();  // Worker 0 never comes.
    worker.exchange.Abort(PeerLostError("worker 0 has died"));
  });
  const auto is_reason = StatusIs(absl::StatusCode::kUnavailable, "worker 0 has died");
  EXPECT_THAT(worker.Bind(), is_reason);
  aborter.join();
  worker.exchange.Abort(absl::AbortedError("second"));
  EXPECT_THAT(worker.LaunchAll(0), is_reason);
  EXPECT_THAT(worker.exchange.Finish(0), is_reason);
  EXPECT_THAT(worker.Bind(), is_reason);
}

TEST_P(ExchangeErrorTest, OneServersAbortEndsFinishAndTheRequestsToTheOthers) {
  RunWorkers(workers_, [](Worker& worker) { ASSERT_OK(worker.Bind()); });
  Worker& worker = *workers_[0];
  ASSERT_OK(worker.LaunchAll(0));
  std::thread aborter([&] {
    AwaitAllParked();  // Worker 1 never pushes.
    cluster_.shard(1).Abort(CheckFailedError("replicas differ"));
  });
  const absl::Status status = worker.exchange.Finish(0).status();
  aborter.join();
  EXPECT_THAT(status, StatusIs(absl::StatusCode::kDataLoss,
                               testing::AllOf(HasSubstr("server 1 ("),
                                              HasSubstr("replicas differ"))));
  EXPECT_EQ(ExitCodeOf(status), ExitCode::kCheckFailed);
  EXPECT_EQ(worker.LaunchAll(0), status);
}

TEST_P(ExchangeErrorTest, AWorkerThatBeginsAnewGoesOnWithTheRoundThatIsOpen) {
  const auto reference = Reference(buckets_, 2, Sync::RING, 3);
  RunWorkers(workers_, [](Worker& worker) {
    ASSERT_OK(worker.Bind());
    for (int64_t step = 0; step < 2; ++step) {
      ASSERT_OK(worker.LaunchAll(step));
      ASSERT_OK(worker.exchange.Finish(step));
    }
  });
  workers_[1] = std::make_unique<Worker>(/*rank=*/1, buckets_, cluster_);
  ASSERT_OK(workers_[1]->Bind());
  EXPECT_EQ(Bits(workers_[1]->parameters), Bits(reference[1]));
  RunWorkers(workers_, [&](Worker& worker) {
    ASSERT_OK(worker.LaunchAll(2));
    ASSERT_OK(worker.exchange.Finish(2));
    EXPECT_EQ(Bits(worker.parameters), Bits(reference[2]));
  });
}

TEST_P(ExchangeErrorTest, WrongArgumentsAreRefusedAndChangeNothing) {
  Worker& worker = *workers_[0];
  EXPECT_THAT(worker.exchange.Launch(0, buckets_.buckets[0], ReadyEvent::Happened()),
              StatusIs(absl::StatusCode::kFailedPrecondition, HasSubstr("before Bind")));
  EXPECT_THAT(
      worker.exchange.Bind({.data = worker.parameters.data(), .count = 1},
                           worker.Span(worker.gradients)),
      StatusIs(absl::StatusCode::kInvalidArgument, HasSubstr("the parameters 1")));
  RunWorkers(workers_, [](Worker& worker) { ASSERT_OK(worker.Bind()); });
  EXPECT_THAT(worker.exchange.Launch(0, buckets_.buckets[1], ReadyEvent::Happened()),
              StatusIs(absl::StatusCode::kFailedPrecondition,
                       HasSubstr("bucket 1 of step 0 is launched after 0 of")));
  EXPECT_THAT(worker.exchange.Finish(0),
              StatusIs(absl::StatusCode::kFailedPrecondition, HasSubstr("after 0 of")));
  RunWorkers(workers_, [](Worker& worker) {
    ASSERT_OK(worker.LaunchAll(0));
    ASSERT_OK(worker.exchange.Finish(0));
  });
  EXPECT_EQ(Bits(worker.parameters), Bits(Reference(buckets_, 2, Sync::RING, 1)[0]));
}

INSTANTIATE_TEST_SUITE_P(All, ExchangeErrorTest,
                         testing::Values(ChannelKind::kInProcess, ChannelKind::kGrpc),
                         [](const auto& info) { return ChannelKindName(info.param); });

}  // namespace
}  // namespace psring
