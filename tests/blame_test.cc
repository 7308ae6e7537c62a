// A late worker is told from a slow link, on every other worker, whatever carries the
// gradients: from whole training steps to the causes of their exposed time.
//
// Ranks are threads. All share one clock, which stands still but for kPause, that a test
// lets pass where it says; so every wall time is known exactly, on any machine. What
// ranks see of it are clocks hours apart.
#include <atomic>
#include <functional>
#include <memory>
#include <string>
#include <thread>
#include <utility>
#include <vector>

#include "common/computed_step_constants.h"
#include "common/cpu_device.h"
#include "common/status_macros.h"
#include "common/status_matchers.h"
#include "common/test_clock.h"
#include "experiments/aligned_clocks.h"
#include "experiments/waits.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "ring/ring_exchange.h"
#include "ring/ring_test_util.h"
#include "tests/exchange_test_util.h"
#include "tests/parameter_server_cluster.h"
#include "worker/pace.h"
#include "worker/synthetic_model.h"
#include "worker/trainer.h"

namespace psring {
namespace {

constexpr int kRanks = 3;
constexpr int kLate = 1;
constexpr int64_t kSteps = 3;
constexpr int64_t kPauseStep = 1;
constexpr absl::Duration kPause = absl::Milliseconds(200);
constexpr int64_t kPauseNs = 200'000'000;

// Rank r's clock shows r hours more than the common one.
class RankTime final : public TimeSource {
 public:
  RankTime(const TestClock* clock, int rank) : clock_(clock), rank_(rank) {}
  absl::Duration Elapsed() const override {
    return clock_->Elapsed() + rank_ * absl::Hours(1);
  }

 private:
  const TestClock* const clock_;
  const int rank_;
};

// Lets time pass when all ranks but one, or all, have nothing to do but to wait.
class Pause {
 public:
  void Watch(int rank, const Trainer* trainer) { trainers_[rank] = trainer; }
  void Take(int but) {
    for (int rank = 0; rank < kRanks; ++rank) {
      while (rank != but && !Waits(rank)) std::this_thread::yield();
    }
    clock.Set(clock.Elapsed() + kPause);
  }

  TestClock clock;

 private:
  bool Waits(int rank) const {
    const Trainer* const trainer = trainers_[rank];
    if (trainer == nullptr) return false;
    const TrainingProgress progress = trainer->progress();
    return progress.step == kPauseStep && progress.phase == TrainingPhase::kWaiting;
  }

  std::atomic<const Trainer*> trainers_[kRanks] = {};
};

// The pause comes before the gradient of the last tensor, the first to be ready.
class LateModel final : public Model {
 public:
  LateModel(std::unique_ptr<Model> model, Pause* pause)
      : model_(std::move(model)), pause_(pause) {}

  const ParameterLayout& layout() const override { return model_->layout(); }
  void Bind(DeviceSpan parameters, DeviceSpan gradients) override {
    model_->Bind(parameters, gradients);
  }
  absl::StatusOr<double> Forward(const Batch& batch) override {
    return model_->Forward(batch);
  }
  absl::Status Backward(absl::FunctionRef<void(int tensor)> ready) override {
    if (step_++ == kPauseStep) pause_->Take(/*but=*/kLate);
    return model_->Backward(ready);
  }
  int64_t correct() const override { return model_->correct(); }

 private:
  const std::unique_ptr<Model> model_;
  Pause* const pause_;
  int64_t step_ = 0;
};

// The pause comes before the first bucket is on its way.
class SlowCollectives final : public Collectives {
 public:
  SlowCollectives(std::unique_ptr<Collectives> collectives, Pause* pause)
      : collectives_(std::move(collectives)), pause_(pause) {}

  absl::Status AllReduce(OperationTag tag, Elements values) override {
    if (tag.step == kPauseStep && tag.bucket == 0) pause_->Take(/*but=*/-1);
    return collectives_->AllReduce(tag, values);
  }
  absl::Status ReduceScatter(OperationTag tag, Elements values) override {
    return collectives_->ReduceScatter(tag, values);
  }
  absl::Status AllGather(OperationTag tag, Elements values) override {
    return collectives_->AllGather(tag, values);
  }
  absl::Status Broadcast(DeviceSpan values) override {
    return collectives_->Broadcast(values);
  }
  absl::Status Barrier() override { return collectives_->Barrier(); }
  void Abort(absl::Status reason) override { collectives_->Abort(std::move(reason)); }
  ExchangeTraffic traffic() const override { return collectives_->traffic(); }
  absl::Duration working() const override { return collectives_->working(); }
  std::string Awaited() const override { return collectives_->Awaited(); }

 private:
  const std::unique_ptr<Collectives> collectives_;
  Pause* const pause_;
};

// The same, on the way to a server.
class SlowChannel final : public ParameterChannel {
 public:
  SlowChannel(std::unique_ptr<ParameterChannel> channel, Pause* pause)
      : channel_(std::move(channel)), pause_(pause) {}
  ~SlowChannel() override {
    if (slow_.joinable()) slow_.join();
  }

  void Initialize(const Slot& slot, std::span<const float> parameters,
                  Done done) override {
    channel_->Initialize(slot, parameters, std::move(done));
  }
  void Pull(const Slot& slot, int64_t step, std::span<float> parameters,
            PullDone done) override {
    channel_->Pull(slot, step, parameters, std::move(done));
  }
  void Exchange(const Slot& slot, int64_t step, int64_t version, Bytes gradient,
                std::span<float> parameters, PullDone done) override {
    const auto send = [=, this] {
      channel_->Exchange(slot, step, version, gradient, parameters, done);
    };
    if (step != kPauseStep || slot.index != 0) return send();
    slow_ = std::thread([=, this] {
      pause_->Take(/*but=*/-1);
      send();
    });
  }
  void Snapshot(const Slot& slot, int64_t step, std::span<float> parameters,
                SnapshotDone done) override {
    channel_->Snapshot(slot, step, parameters, std::move(done));
  }
  void Leave(Done done) override { channel_->Leave(std::move(done)); }
  void Abort(const absl::Status& reason) override { channel_->Abort(reason); }

 private:
  const std::unique_ptr<ParameterChannel> channel_;
  Pause* const pause_;
  std::thread slow_;
};

enum class Where { kNowhere, kInBackward, kOnTheWay };

class BlameTest : public testing::TestWithParam<bool> {
 protected:
  static ParameterLayout Layout() {
    ParameterLayout layout;
    layout.Add("first", {40});
    layout.Add("middle", {7, 19});
    layout.Add("last", {50});
    return layout;
  }

  // The record of each rank of the step in which the pause is to be.
  void Train(Where where) {
    buckets_ = PlanBuckets(Layout(), /*cap_bytes=*/4, /*first_cap_bytes=*/4);
    ASSERT_EQ(buckets_.buckets.size(), 3);
    std::vector<std::unique_ptr<GradientExchange>> exchanges =
        GetParam() ? RingExchanges(where) : ServerExchanges(where);
    records_.resize(kRanks);
    const auto statuses = RunRanks(
        kRanks, [&](int rank) { return TrainRank(rank, where, exchanges[rank].get()); });
    ASSERT_THAT(statuses, testing::Each(IsOk()));
  }

  Causes CausesOf(int rank) const {
    AlignedClocks clocks;
    std::vector<const StepRecord*> steps;
    for (int other = 0; other < kRanks; ++other) {
      ClockRecord compared;
      compared.set_offset_ns(absl::ToInt64Nanoseconds(-other * absl::Hours(1)));
      clocks.Add(other, compared);
      steps.push_back(&records_[other]);
    }
    std::vector<int64_t> bytes;
    for (const Bucket& bucket : buckets_.buckets) bytes.push_back(4 * bucket.range.count);
    const Causes causes = CutByCause(ExposedSpans(records_[rank], bytes),
                                     WaitsOf(rank, steps, /*awaits_all=*/true, clocks));
    EXPECT_EQ(causes.total_ns(), records_[rank].exposed_ns());
    return causes;
  }

  std::vector<StepRecord> records_;  // By rank.

 private:
  std::vector<std::unique_ptr<GradientExchange>> RingExchanges(Where where) {
    auto linked =
        MakeCollectives(TransportKind::kInProcess, {.order = RingOrder(kRanks)});
    std::vector<std::unique_ptr<GradientExchange>> exchanges;
    for (int rank = 0; rank < kRanks; ++rank) {
      std::unique_ptr<Collectives> collectives = std::move(linked[rank]);
      if (where == Where::kOnTheWay && rank == kLate) {
        collectives = std::make_unique<SlowCollectives>(std::move(collectives), &pause_);
      }
      exchanges.push_back(std::make_unique<RingExchange>(
          kRanks, buckets_, TestOptimizer(),
          std::make_shared<ComputedStepConstants>(TestOptimizer(), kSteps),
          std::move(collectives), &times_[rank]));
    }
    return exchanges;
  }

  std::vector<std::unique_ptr<GradientExchange>> ServerExchanges(Where where) {
    cluster_ = std::make_unique<ParameterServerCluster>(
        ParameterServerCluster::Options{.buckets = buckets_,
                                        .servers = 2,
                                        .workers = kRanks,
                                        .mode = ModeOf("sync {}"),
                                        .optimizer = TestOptimizer(),
                                        .steps = kSteps});
    std::vector<std::unique_ptr<GradientExchange>> exchanges;
    for (int rank = 0; rank < kRanks; ++rank) {
      auto channels = cluster_->NewChannels(rank);
      if (where == Where::kOnTheWay && rank == kLate) {
        channels[0] = std::make_unique<SlowChannel>(std::move(channels[0]), &pause_);
      }
      exchanges.push_back(std::make_unique<ParameterServerExchange>(
          rank, cluster_->plan(), std::move(channels), &times_[rank]));
    }
    return exchanges;
  }

  absl::Status TrainRank(int rank, Where where, GradientExchange* exchange) {
    const std::unique_ptr<Device> device = MakeCpuDevice();
    ASSIGN_OR_RETURN(const DeviceBuffer parameters, device->Allocate(Layout().count()));
    ASSIGN_OR_RETURN(const DeviceBuffer gradients, device->Allocate(Layout().count()));
    std::unique_ptr<Model> model = MakeSyntheticModel(Layout(), rank);
    if (where == Where::kInBackward && rank == kLate) {
      model = std::make_unique<LateModel>(std::move(model), &pause_);
    }
    model->Bind(parameters.span(), gradients.span());
    RETURN_IF_ERROR(exchange->Bind(parameters.span(), gradients.span()));
    Pace pace(PaceSettings(), &times_[rank], nullptr);
    Trainer trainer({.rank = rank, .workers = kRanks, .rows = 1, .steps = kSteps},
                    {.device = device.get(),
                     .model = model.get(),
                     .exchange = exchange,
                     .buckets = &buckets_,
                     .data = nullptr,
                     .sampler = nullptr,
                     .time = &times_[rank],
                     .pace = &pace,
                     .parameters = parameters.span(),
                     .gradients = gradients.span()},
                    [this, rank](const StepRecord& step) {
                      if (step.step() == kPauseStep) records_[rank] = step;
                    });
    pause_.Watch(rank, &trainer);
    return trainer.Run();
  }

  BucketPlan buckets_;
  Pause pause_;
  const RankTime times_[kRanks] = {
      {&pause_.clock, 0}, {&pause_.clock, 1}, {&pause_.clock, 2}};
  std::unique_ptr<ParameterServerCluster> cluster_;
};

TEST_P(BlameTest, ADelayInBackwardIsThatWorkersAlthoughAllWallTimesAreAlike) {
  ASSERT_NO_FATAL_FAILURE(Train(Where::kInBackward));
  for (int rank = 0; rank < kRanks; ++rank) {
    SCOPED_TRACE(rank);
    EXPECT_EQ(records_[rank].total_ns(), kPauseNs);
    const Causes causes = CausesOf(rank);
    EXPECT_EQ(causes.peer_late_ns, rank == kLate ? 0 : kPauseNs);
    EXPECT_EQ(causes.waited_for,
              rank == kLate ? std::nullopt : std::optional<int>(kLate));
  }
}

// One worker's link is slow: everybody waits as long as in the test before.
TEST_P(BlameTest, ASlowLinkIsNobodysFault) {
  ASSERT_NO_FATAL_FAILURE(Train(Where::kOnTheWay));
  for (int rank = 0; rank < kRanks; ++rank) {
    SCOPED_TRACE(rank);
    EXPECT_EQ(records_[rank].total_ns(), kPauseNs);
    EXPECT_EQ(records_[rank].exposed_ns(), kPauseNs);
    const Causes causes = CausesOf(rank);
    EXPECT_EQ(causes.waited_for, std::nullopt);
    EXPECT_EQ(causes.not_ready_ns, 0);
    EXPECT_EQ(causes.on_wire_ns + causes.working_ns, kPauseNs);
    // Adding up takes what it takes on this machine.
    EXPECT_GT(causes.on_wire_ns, kPauseNs / 2);
  }
}

TEST_P(BlameTest, WithoutAPauseNothingIsExposed) {
  ASSERT_NO_FATAL_FAILURE(Train(Where::kNowhere));
  for (int rank = 0; rank < kRanks; ++rank) {
    EXPECT_EQ(records_[rank].total_ns(), 0);
    EXPECT_EQ(CausesOf(rank).total_ns(), 0);
  }
}

INSTANTIATE_TEST_SUITE_P(All, BlameTest, testing::Bool(), [](const auto& info) {
  return info.param ? "Ring" : "Servers";
});

}  // namespace
}  // namespace psring
