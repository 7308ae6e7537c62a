// The training loop against a scripted exchange. Steps of several passes, without samples
// or with unused tensors: trainer_passes_test.cc.
#include "worker/trainer.h"

#include <algorithm>
#include <cmath>
#include <limits>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <utility>
#include <vector>

#include "common/digest.h"
#include "common/errors.h"
#include "common/status_matchers.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "worker/synthetic_model.h"
#include "worker/trainer_test_util.h"

namespace psring {
namespace {

using testing::ElementsAre;
using testing::HasSubstr;

TEST_F(TrainerTest, LaunchesBucketsInIndexOrderThenFinishes) {
  ASSERT_OK(Train({.steps = 2}));
  EXPECT_THAT(exchange_.calls,
              ElementsAre("launch 0.0", "launch 0.1", "launch 0.2", "finish 0",
                          "launch 1.0", "launch 1.1", "launch 1.2", "finish 1"));
}

TEST_F(TrainerTest, WithoutOverlapBucketsAreLaunchedWhenBackwardIsDone) {
  for (const bool overlap : {true, false}) {
    exchange_.calls.clear();
    steps_.clear();
    ASSERT_OK(Train({.steps = 1, .overlap = overlap}));
    EXPECT_THAT(exchange_.calls,
                ElementsAre("launch 0.0", "launch 0.1", "launch 0.2", "finish 0"));
    const StepRecord& step = steps_[0];
    EXPECT_EQ(step.buckets(0).launched_ns() < step.buckets(1).ready_ns(), overlap);
    EXPECT_EQ(step.buckets(0).launched_ns() < step.buckets(2).ready_ns(), overlap);
    EXPECT_EQ(step.operations(), 3);
  }
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
    EXPECT_EQ(step.forward_ns(), 2'000'000);  // The pace looks once as well.
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
      EXPECT_EQ(times.working_ns(), 7 + bucket);
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
  // Of each tensor by itself, too; together they are all of it.
  const std::vector<Tensor>& tensors = model_->layout().tensors();
  ASSERT_EQ(steps_[4].tensor_digests_size(), static_cast<int>(tensors.size()));
  uint64_t sum = 0;
  for (size_t i = 0; i < tensors.size(); ++i) {
    const uint64_t digest = steps_[4].tensor_digests(static_cast<int>(i));
    EXPECT_EQ(digest, Digest(parameters_.span().Slice(tensors[i].range).host(),
                             tensors[i].range.begin));
    sum += digest;
  }
  EXPECT_EQ(sum, steps_[4].parameter_digest());
  EXPECT_EQ(steps_[0].tensor_digests_size(), 0);
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
  ASSERT_EQ(Sampler(20, 8, /*seed=*/1).steps_per_epoch(), 2);
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

// Large inputs and parameters make gradients that fp16 does not have.
TEST_F(TrainerTest, AGradientBeyondItsWireEndsTrainingAndIsNamed) {
  InitializeParameters(model_->layout(), /*seed=*/1, parameters_.span().host());
  for (float& parameter : parameters_.span().host()) parameter *= 1e6f;
  ASSERT_OK(Train({.steps = 1}));
  steps_.clear();
  exchange_.calls.clear();
  Wire wire;
  wire.mutable_fp16();
  for (float& parameter : parameters_.span().host()) parameter *= 1e2f;
  const absl::Status status =
      Train({.steps = 1, .non_finite = Training::SKIP, .wire = wire});
  EXPECT_THAT(status,
              StatusIs(absl::StatusCode::kOutOfRange,
                       testing::MatchesRegex(
                           "rank 1's gradient of tensor [a-z0-9.]+ is [-+.e0-9]+ at "
                           "element [0-9]+, in step 0, and goes as fp16, whose largest "
                           "finite number is 65504")));
  EXPECT_EQ(ExitCodeOf(status), ExitCode::kNotANumber);
}

TEST_F(TrainerTest, RecordsDriftWhereThereIsSome) {
  ASSERT_OK(Train({.steps = 1}));
  EXPECT_FALSE(steps_[0].has_drift_max());
  EXPECT_FALSE(steps_[0].has_drift_mean());
  exchange_.drift = Drift{.max = 0.5, .sum = 1, .count = 4};
  ASSERT_OK(Train({.steps = 1}));
  EXPECT_EQ(steps_[1].drift_max(), 0.5);
  EXPECT_EQ(steps_[1].drift_mean(), 0.25);
}

TEST_F(TrainerTest, FiniteGradientsAreLeftAsTheyAre) {
  InitializeParameters(model_->layout(), /*seed=*/1, parameters_.span().host());
  ASSERT_OK(Train({.steps = 1, .non_finite = Training::SKIP}));
  EXPECT_EQ(steps_[0].skipped_buckets(), 0);
  EXPECT_EQ(exchange_.launched_zeros, std::vector<bool>(3, false));
}

PaceSettings WithTimetable(absl::Duration unit) {
  return {.timetable = Timetable{.forward = unit,
                                 .ready = {5 * unit, 4 * unit, 3 * unit, 2 * unit}}};
}

TEST_F(TrainerTest, ThePaceDecidesWhenGradientsAreReady) {
  pace_ = std::make_unique<Pace>(WithTimetable(absl::Milliseconds(100)), &time_,
                                 [this](absl::Duration missing) {
                                   time_.Advance(missing);
                                   return absl::OkStatus();
                                 });
  ASSERT_OK(Train({.steps = 2}));
  for (const StepRecord& step : steps_) {
    EXPECT_EQ(step.forward_ns(), 102'000'000) << "with two looks at the clock";
    // Of two, tensors 1 and 2, and one.
    const int64_t first = step.buckets(0).ready_ns();
    EXPECT_EQ(step.buckets(1).ready_ns() - first, 200'000'000);
    EXPECT_EQ(step.buckets(2).ready_ns() - first, 301'000'000);
    EXPECT_FALSE(step.late());
  }
}

TEST_F(TrainerTest, AStepThatDoesNotKeepUpWithThePaceIsLate) {
  pace_ = std::make_unique<Pace>(WithTimetable(absl::Microseconds(100)), &time_, nullptr);
  ASSERT_OK(Train({.steps = 1}));
  EXPECT_TRUE(steps_[0].late());
}

TEST_F(TrainerTest, AnAbortEndsTheWaitsOfThePace) {
  int waits = 0;
  pace_ = std::make_unique<Pace>(
      WithTimetable(absl::Seconds(1)), &time_, [&waits](absl::Duration) {
        return ++waits == 4 ? absl::CancelledError("stop") : absl::OkStatus();
      });
  EXPECT_THAT(Train({.steps = 2}), StatusIs(absl::StatusCode::kCancelled, "stop"));
  EXPECT_EQ(waits, 4);
  EXPECT_THAT(exchange_.calls, ElementsAre("launch 0.0")) << "launched after the abort";
}

// A model that looks at no sample.
TEST_F(TrainerTest, WithoutDataThereAreRowsAlone) {
  model_ = MakeSyntheticModel(model_->layout(), /*rank=*/1);
  model_->Bind(parameters_.span(), gradients_.span());
  with_data_ = false;
  ASSERT_OK(Train({.steps = 2, .digest_interval = 1}));
  ASSERT_EQ(steps_.size(), 2);
  EXPECT_EQ(steps_[1].samples(), 4);
  EXPECT_TRUE(std::isnan(steps_[1].loss()));
  EXPECT_TRUE(steps_[1].has_parameter_digest());
  EXPECT_EQ(gradients_.span().host()[7], SyntheticGradient(1, 1, 7));
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
