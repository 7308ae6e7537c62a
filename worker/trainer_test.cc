// The training loop against a scripted exchange.
#include "worker/trainer.h"

#include <algorithm>
#include <limits>
#include <memory>
#include <numeric>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "absl/strings/str_cat.h"
#include "common/cpu_device.h"
#include "common/digest.h"
#include "common/errors.h"
#include "common/status_matchers.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "worker/mlp.h"

namespace psring {
namespace {

using testing::ElementsAre;
using testing::HasSubstr;

// Every look at the clock takes a millisecond.
class CountingTime final : public TimeSource {
 public:
  absl::Duration Elapsed() const override { return now_ += absl::Milliseconds(1); }

 private:
  mutable absl::Duration now_;
};

// Writes down what is asked of it; each Finish adds one to every parameter.
class ScriptedExchange final : public GradientExchange {
 public:
  absl::Status Bind(DeviceSpan parameters, DeviceSpan gradients) override {
    parameters_ = parameters;
    gradients_ = gradients;
    return absl::OkStatus();
  }
  absl::Status Launch(int64_t step, const Bucket& bucket, const ReadyEvent&) override {
    const std::span<const float> gradients = gradients_.Slice(bucket.range).host();
    launched_zeros.push_back(
        std::all_of(gradients.begin(), gradients.end(), [](float g) { return g == 0; }));
    done_[bucket.index] = absl::Seconds(100 * step + bucket.index);
    calls.push_back(absl::StrCat("launch ", step, ".", bucket.index));
    return fail_launch ? absl::InternalError("launch failed") : absl::OkStatus();
  }
  absl::StatusOr<StepReport> Finish(int64_t step) override {
    calls.push_back(absl::StrCat("finish ", step));
    if (step == fail_finish_of) return absl::UnavailableError("worker 1 is gone");
    for (float& parameter : parameters_.host()) parameter += 1;
    return StepReport{.finished = step == last_step,
                      .optimizer = absl::Microseconds(250),
                      .bucket_done = done_,
                      .peer_late = step * absl::Microseconds(100),
                      .waited_for = step > 0 ? std::optional<int>(7) : std::nullopt,
                      .version_skew = 2 * step};
  }
  void Abort(absl::Status) override {}
  ExchangeTraffic traffic() const override {
    const auto finished = static_cast<int64_t>(calls.size());
    return {.payload_out = finished, .payload_in = 2 * finished};
  }

  std::string Awaited() const override { return ""; }

  std::vector<std::string> calls;
  bool fail_launch = false;
  int64_t fail_finish_of = -1;
  int64_t last_step = -1;            // The one that is finished with the run's end.
  std::vector<bool> launched_zeros;  // By launch: its gradients were all zero.

 private:
  DeviceSpan parameters_;
  DeviceSpan gradients_;
  std::vector<absl::Duration> done_ = std::vector<absl::Duration>(3);  // By bucket.
};

class TrainerTest : public testing::Test {
 protected:
  static constexpr int64_t kFeatures = 4;

  TrainerTest()
      : data_{.shape = {.train_count = 20,
                        .test_count = 2,
                        .features = kFeatures,
                        .classes = 3},
              .train = Samples(20),
              .test = Samples(2)} {}

  static SampleSet Samples(int count) {
    std::vector<uint8_t> pixels(count * kFeatures), labels(count);
    std::iota(pixels.begin(), pixels.end(), 0);
    for (int i = 0; i < count; ++i) labels[i] = static_cast<uint8_t>(i % 3);
    return SampleSet(kFeatures, std::move(pixels), std::move(labels));
  }

  void SetUp() override {
    ASSERT_OK_AND_ASSIGN(model_, MakeMlp(device_.get(), {kFeatures, 5, 3}, 4));
    buckets_ = PlanBuckets(model_->layout(), 80, 60);
    ASSERT_EQ(buckets_.buckets.size(), 3);
    ASSERT_OK_AND_ASSIGN(parameters_, device_->Allocate(model_->layout().count()));
    ASSERT_OK_AND_ASSIGN(gradients_, device_->Allocate(model_->layout().count()));
    model_->Bind(parameters_.span(), gradients_.span());
    ASSERT_OK(exchange_.Bind(parameters_.span(), gradients_.span()));
  }

  void Fill(float value) {
    const std::span<float> parameters = parameters_.span().host();
    std::fill(parameters.begin(), parameters.end(), value);
  }

  absl::Status Train(Trainer::Options options) {
    options.rank = 1;
    options.workers = 2;
    Trainer trainer(options,
                    {.device = device_.get(),
                     .model = model_.get(),
                     .exchange = &exchange_,
                     .buckets = &buckets_,
                     .data = &data_,
                     .sampler = &sampler_,
                     .time = &time_,
                     .slowdown = &slowdown_,
                     .parameters = parameters_.span(),
                     .gradients = gradients_.span()},
                    [this](const StepRecord& step) { steps_.push_back(step); });
    const absl::Status status = trainer.Run();
    snapshots_ = trainer.TakeSnapshots();
    return status;
  }

  CountingTime time_;
  std::unique_ptr<Device> device_ = MakeCpuDevice();
  DataSet data_;
  Sampler sampler_{20, 8, /*seed=*/1};
  Slowdown slowdown_{1, time_, [](absl::Duration) {}};
  ScriptedExchange exchange_;
  std::unique_ptr<Model> model_;
  BucketPlan buckets_;
  DeviceBuffer parameters_, gradients_;
  std::vector<StepRecord> steps_;
  std::vector<Snapshot> snapshots_;
};

TEST_F(TrainerTest, LaunchesBucketsInIndexOrderThenFinishes) {
  ASSERT_OK(Train({.steps = 2}));
  EXPECT_THAT(exchange_.calls,
              ElementsAre("launch 0.0", "launch 0.1", "launch 0.2", "finish 0",
                          "launch 1.0", "launch 1.1", "launch 1.2", "finish 1"));
}

TEST_F(TrainerTest, PartsAndWhatIsLeftAddUpToTheStep) {
  ASSERT_OK(Train({.steps = 3}));
  ASSERT_EQ(steps_.size(), 3);
  int64_t end = -1;
  for (const StepRecord& step : steps_) {
    if (end >= 0) {
      EXPECT_EQ(step.start_ns(), end) << "time fell between two steps";
    }
    end = step.start_ns() + step.total_ns();
    // Each part is one look at the clock, backward's two more for each bucket; of the
    // exchange's, 250 us were the optimizer's.
    EXPECT_EQ(step.data_ns(), 1'000'000);
    EXPECT_EQ(step.forward_ns(), 2'000'000);  // Slowdown looks once as well.
    EXPECT_EQ(step.backward_ns(), 7'000'000);
    EXPECT_EQ(step.exposed_ns(), 750'000);
    EXPECT_EQ(step.optimizer_ns(), 250'000);
    // The record of the step before is handed over.
    EXPECT_EQ(step.recording_ns(), step.step() == 0 ? 0 : 1'000'000);
    EXPECT_EQ(step.samples(), 4);
    EXPECT_GT(step.loss(), 0);
  }
  EXPECT_EQ(steps_[1].payload_out(), 8);
  EXPECT_EQ(steps_[1].payload_in(), 16);
}

TEST_F(TrainerTest, BucketTimesAreOfEachBucketAndStep) {
  ASSERT_OK(Train({.steps = 2}));
  for (const StepRecord& step : steps_) {
    ASSERT_EQ(step.buckets_size(), 3);
    int64_t last = step.start_ns();
    for (int bucket = 0; bucket < 3; ++bucket) {
      const BucketTimes& times = step.buckets(bucket);
      EXPECT_GT(times.ready_ns(), last);
      EXPECT_EQ(times.launched_ns(), times.ready_ns() + 1'000'000);
      EXPECT_EQ(times.done_ns(), (100 * step.step() + bucket) * 1'000'000'000);
      last = times.launched_ns();
    }
    EXPECT_LT(last, step.start_ns() + step.total_ns());
  }
}

TEST_F(TrainerTest, DigestsAndSnapshotsAtTheirIntervalsAndAtTheEnd) {
  ASSERT_OK(Train({.steps = 5,
                   .digest_interval = 2,
                   .snapshot_interval = 3,
                   .take_snapshots = true}));
  std::vector<int64_t> checked;
  for (const StepRecord& step : steps_) {
    if (step.has_parameter_digest()) checked.push_back(step.step());
  }
  EXPECT_THAT(checked, ElementsAre(1, 3, 4));
  EXPECT_EQ(steps_[4].parameter_digest(), Digest(parameters_.span().host()));
  ASSERT_EQ(snapshots_.size(), 2);
  EXPECT_EQ(snapshots_[0].step, 3);
  EXPECT_EQ(snapshots_[0].parameters[0], 3.0f);
  EXPECT_EQ(snapshots_[1].step, 5);
  EXPECT_EQ(snapshots_[1].parameters[0], 5.0f);
}

TEST_F(TrainerTest, IntervalZeroMeansTheEndOnly) {
  ASSERT_OK(Train({.steps = 2, .take_snapshots = true}));
  EXPECT_FALSE(steps_[0].has_parameter_digest());
  EXPECT_TRUE(steps_[1].has_parameter_digest());
  EXPECT_EQ(snapshots_.size(), 1);
}

TEST_F(TrainerTest, WithoutACountTheExchangeSaysWhichStepIsTheLast) {
  exchange_.last_step = 3;
  ASSERT_OK(
      Train({.digest_interval = 3, .snapshot_interval = 3, .take_snapshots = true}));
  ASSERT_EQ(steps_.size(), 4);
  EXPECT_FALSE(steps_[1].has_parameter_digest());
  EXPECT_TRUE(steps_[2].has_parameter_digest());
  EXPECT_TRUE(steps_[3].has_parameter_digest()) << "the end always counts";
  ASSERT_EQ(snapshots_.size(), 2);
  EXPECT_EQ(snapshots_[1].step, 4);
}

TEST_F(TrainerTest, StepsBeyondAnEpochWalkOnIntoTheNext) {
  ASSERT_EQ(sampler_.steps_per_epoch(), 2);
  exchange_.last_step = 4;
  ASSERT_OK(Train({}));
  EXPECT_EQ(steps_.size(), 5);
}

TEST_F(TrainerTest, RecordsWhomAStepWaitedForAndHowFarItsSlotsWereApart) {
  ASSERT_OK(Train({.steps = 3}));
  EXPECT_EQ(steps_[0].peer_late_ns(), 0);
  EXPECT_FALSE(steps_[0].has_waited_for());
  EXPECT_EQ(steps_[2].peer_late_ns(), 200'000);
  EXPECT_EQ(steps_[2].waited_for(), 7);
  EXPECT_EQ(steps_[0].version_skew(), 0);
  EXPECT_EQ(steps_[2].version_skew(), 4);
}

// Infinite parameters give logits without a number, and then no gradient is finite.
TEST_F(TrainerTest, AGradientThatIsNotFiniteEndsTrainingAndIsNamed) {
  Fill(std::numeric_limits<float>::infinity());
  const absl::Status status = Train({.steps = 2});
  const int tensor = buckets_.buckets[0].first_tensor;
  EXPECT_THAT(
      status,
      StatusIs(absl::StatusCode::kOutOfRange,
               testing::MatchesRegex(absl::StrCat("rank 1's gradient of tensor ",
                                                  model_->layout().tensors()[tensor].name,
                                                  " is -?nan at element 0, in step 0"))));
  EXPECT_EQ(ExitCodeOf(status), ExitCode::kNotANumber);
  EXPECT_THAT(exchange_.calls, testing::IsEmpty()) << "it was exchanged";
}

TEST_F(TrainerTest, OrItsBucketCountsAsZeroAndIsCounted) {
  Fill(std::numeric_limits<float>::infinity());
  ASSERT_OK(Train({.steps = 2, .non_finite = Training::SKIP}));
  ASSERT_EQ(steps_.size(), 2);
  EXPECT_EQ(steps_[0].skipped_buckets(), 3);
  EXPECT_EQ(exchange_.launched_zeros, std::vector<bool>(6, true));
}

TEST_F(TrainerTest, FiniteGradientsAreLeftAsTheyAre) {
  InitializeParameters(model_->layout(), /*seed=*/1, parameters_.span().host());
  ASSERT_OK(Train({.steps = 1, .non_finite = Training::SKIP}));
  EXPECT_EQ(steps_[0].skipped_buckets(), 0);
  EXPECT_EQ(exchange_.launched_zeros, std::vector<bool>(3, false));
}

TEST_F(TrainerTest, TheExchangesErrorEndsTraining) {
  exchange_.fail_finish_of = 1;
  EXPECT_THAT(Train({.steps = 5}),
              StatusIs(absl::StatusCode::kUnavailable, HasSubstr("worker 1")));
  EXPECT_EQ(steps_.size(), 1);
}

TEST_F(TrainerTest, AFailedLaunchIsNotFollowedByOthers) {
  exchange_.fail_launch = true;
  EXPECT_THAT(Train({.steps = 1}),
              StatusIs(absl::StatusCode::kInternal, HasSubstr("launch failed")));
  EXPECT_THAT(exchange_.calls, ElementsAre("launch 0.0"));
}

}  // namespace
}  // namespace psring
