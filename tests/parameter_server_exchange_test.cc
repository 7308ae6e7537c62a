// The whole parameter-server path, workers as threads: bits, bytes and errors.
#include "worker/parameter_server_exchange.h"

#include <atomic>
#include <bit>
#include <functional>
#include <memory>
#include <string>
#include <thread>
#include <tuple>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "common/arithmetic.h"
#include "common/errors.h"
#include "common/mutex.h"
#include "common/optimizer.h"
#include "common/ring_order.h"
#include "common/schedule.h"
#include "common/status_matchers.h"
#include "common/time_source.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "tests/parameter_server_cluster.h"

namespace psring {
namespace {

using testing::HasSubstr;

// Several buckets; one is smaller than three servers, one than two.
BucketPlan TestBuckets() {
  ParameterLayout layout;
  layout.Add("a", {1});
  layout.Add("b", {7, 19});
  layout.Add("c", {2});
  layout.Add("d", {5, 53});
  layout.Add("e", {11});
  return PlanBuckets(layout, /*cap_bytes=*/128, /*first_cap_bytes=*/64);
}

int64_t Count(const BucketPlan& plan) {
  int64_t count = 0;
  for (const Bucket& bucket : plan.buckets) count += bucket.range.count;
  return count;
}

Optimizer TestOptimizer() {
  Optimizer optimizer;
  optimizer.mutable_sgd()->set_learning_rate(0.1f);
  optimizer.mutable_sgd()->set_momentum(0.9f);
  optimizer.mutable_sgd()->set_weight_decay(0.01f);
  optimizer.mutable_schedule()->set_warmup_steps(3);
  return optimizer;
}

float InitialParameter(int64_t i) { return 1.0f / static_cast<float>(3 + i); }

// Depends on the parameters, so that a step with the wrong ones shows in all later ones.
float Gradient(int rank, int64_t step, int64_t i, float parameter) {
  if (i % 13 == 0) return -0.0f;
  const float sign = (rank + step + i) % 2 == 0 ? 1.0f : -1.0f;
  return sign * (0.1f + 100.0f * static_cast<float>(rank)) / static_cast<float>(1 + i) +
         parameter;
}

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

std::vector<uint32_t> Bits(const std::vector<float>& values) {
  std::vector<uint32_t> bits;
  for (const float value : values) bits.push_back(std::bit_cast<uint32_t>(value));
  return bits;
}

// One worker: its buffers and its exchange.
struct Worker {
  Worker(int rank, const BucketPlan& buckets, ParameterServerCluster& cluster)
      : rank(rank),
        buckets(buckets),
        parameters(Count(buckets)),
        gradients(Count(buckets)),
        exchange(rank, cluster.plan(), cluster.NewChannels(rank), &time) {
    if (rank != 0) return;
    for (int64_t i = 0; i < Count(buckets); ++i) parameters[i] = InitialParameter(i);
  }

  DeviceSpan Span(std::vector<float>& values) {
    return {.data = values.data(), .count = static_cast<int64_t>(values.size())};
  }
  absl::Status Bind() { return exchange.Bind(Span(parameters), Span(gradients)); }
  absl::Status LaunchAll(int64_t step) {
    for (const Bucket& bucket : buckets.buckets) {
      for (int64_t i = bucket.range.begin; i < bucket.range.end(); ++i) {
        gradients[i] = Gradient(rank, step, i, parameters[i]);
      }
      const absl::Status status = exchange.Launch(step, bucket, ReadyEvent::Happened());
      if (!status.ok()) return status;
    }
    return absl::OkStatus();
  }

  const int rank;
  const BucketPlan& buckets;
  std::vector<float> parameters;
  std::vector<float> gradients;
  const RealTime time;
  ParameterServerExchange exchange;
};

void RunWorkers(std::vector<std::unique_ptr<Worker>>& workers,
                const std::function<void(Worker&)>& body) {
  std::vector<std::thread> threads;
  for (const auto& worker : workers) {
    threads.emplace_back([&body, &worker] { body(*worker); });
  }
  for (std::thread& thread : threads) thread.join();
}

using EqualityParam = std::tuple<ChannelKind, int, int, Sync::Order>;

class ExchangeEqualityTest : public testing::TestWithParam<EqualityParam> {};

TEST_P(ExchangeEqualityTest, ParametersEqualTheSerialReferenceAndBytesTheFormulas) {
  constexpr int64_t kSteps = 5;
  const auto [kind, workers, servers, order] = GetParam();
  const BucketPlan buckets = TestBuckets();
  ParameterServerCluster cluster({.kind = kind,
                                  .buckets = buckets,
                                  .servers = servers,
                                  .workers = workers,
                                  .order = order,
                                  .optimizer = TestOptimizer()});
  const auto reference = Reference(buckets, workers, order, kSteps);
  std::vector<std::unique_ptr<Worker>> all;
  for (int rank = 0; rank < workers; ++rank) {
    all.push_back(std::make_unique<Worker>(rank, buckets, cluster));
  }
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
      EXPECT_EQ(report.next_step, step + 1);
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
  }
  for (int server = 0; server < servers; ++server) {
    const int64_t server_bytes = ServerStepBytes(cluster.plan(), server, workers);
    const ExchangeTraffic traffic = cluster.shard(server).traffic();
    EXPECT_EQ(traffic.payload_in, kSteps * server_bytes);
    EXPECT_EQ(traffic.payload_out, kSteps * server_bytes);
    EXPECT_EQ(traffic.initial_in, server_bytes / workers);
    EXPECT_EQ(traffic.initial_out, server_bytes);
  }
}

std::string EqualityName(const testing::TestParamInfo<EqualityParam>& info) {
  const auto [kind, workers, servers, order] = info.param;
  return absl::StrCat(ChannelKindName(kind), workers, "Workers", servers, "Servers",
                      Sync::Order_Name(order));
}

INSTANTIATE_TEST_SUITE_P(All, ExchangeEqualityTest,
                         testing::Combine(testing::Values(ChannelKind::kInProcess,
                                                          ChannelKind::kGrpc,
                                                          ChannelKind::kPlainClient,
                                                          ChannelKind::kPlainServer),
                                          testing::Values(1, 2, 4),
                                          testing::Values(1, 2, 3),
                                          testing::Values(Sync::RING, Sync::RANK)),
                         EqualityName);

class ExchangeErrorTest : public testing::TestWithParam<ChannelKind> {
 protected:
  ExchangeErrorTest()
      : buckets_(TestBuckets()),
        cluster_({.kind = GetParam(),
                  .buckets = buckets_,
                  .servers = 2,
                  .workers = 2,
                  .order = Sync::RING,
                  .optimizer = TestOptimizer()}) {
    for (int rank = 0; rank < 2; ++rank) {
      workers_.push_back(std::make_unique<Worker>(rank, buckets_, cluster_));
    }
  }
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

TEST_P(ExchangeErrorTest, ParametersOfAnotherStepAreAnError) {
  RunWorkers(workers_, [](Worker& worker) {
    ASSERT_OK(worker.Bind());
    for (int64_t step = 0; step < 2; ++step) {
      ASSERT_OK(worker.LaunchAll(step));
      ASSERT_OK(worker.exchange.Finish(step));
    }
  });
  // One that begins anew, while the servers have moved on.
  Worker late(/*rank=*/1, buckets_, cluster_);
  EXPECT_THAT(late.Bind(), StatusIs(absl::StatusCode::kFailedPrecondition,
                                    HasSubstr("for step 0 with version 2")));
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

// Keeps every request until the test ends it, Abort or not: like a network that still
// winds up a call after its cancellation.
class HoldingChannel final : public ParameterChannel {
 public:
  struct Held {
    Mutex mutex;
    std::vector<std::function<void(const absl::Status&)>> requests ABSL_GUARDED_BY(mutex);
    bool aborted ABSL_GUARDED_BY(mutex) = false;
    CondVar changed;
  };

  explicit HoldingChannel(Held* held) : held_(held) {}

  void Initialize(const Slot&, std::span<const float>, Done done) override { Hold(done); }
  void Push(const Slot&, int64_t, std::span<const float>, Done done) override {
    Hold(done);
  }
  void Pull(const Slot&, int64_t, std::span<float>, PullDone done) override {
    Hold([done](const absl::Status& status) { done(status); });
  }
  void Abort(const absl::Status&) override {
    MutexLock lock(&held_->mutex);
    held_->aborted = true;
    held_->changed.NotifyAll();
  }

 private:
  void Hold(std::function<void(const absl::Status&)> request) {
    MutexLock lock(&held_->mutex);
    held_->requests.push_back(std::move(request));
    held_->changed.NotifyAll();
  }

  Held* const held_;
};

TEST(ParameterServerExchangeTest, AnErrorReturnsOnlyWhenNoRequestUsesTheBuffers) {
  ParameterLayout layout;
  layout.Add("first", {4});
  layout.Add("last", {4});
  const BucketPlan buckets = PlanBuckets(layout, /*cap_bytes=*/4, /*first_cap_bytes=*/4);
  HoldingChannel::Held held;
  std::vector<std::unique_ptr<ParameterChannel>> channels;
  channels.push_back(std::make_unique<HoldingChannel>(&held));
  const RealTime time;
  ParameterServerExchange exchange(/*rank=*/1, PlanStripedSlots(buckets, 1),
                                   std::move(channels), &time);
  std::vector<float> values(8);
  std::atomic<bool> all_ended = false;
  std::thread trainer([&] {
    const DeviceSpan span{.data = values.data(), .count = 8};
    EXPECT_THAT(exchange.Bind(span, span), StatusIs(absl::StatusCode::kAborted, "first"));
    EXPECT_TRUE(all_ended);
  });
  std::vector<std::function<void(const absl::Status&)>> requests;
  {
    MutexLock lock(&held.mutex);
    while (held.requests.size() < 2) held.changed.Wait(&held.mutex);
    requests.swap(held.requests);
  }
  requests[0](absl::AbortedError("first"));
  {
    MutexLock lock(&held.mutex);
    while (!held.aborted) held.changed.Wait(&held.mutex);
  }
  all_ended = true;
  requests[1](absl::CancelledError("second"));
  trainer.join();
}

}  // namespace
}  // namespace psring
