// Steps that are more, or less, than one pass over all parameters: of several
// micro-batches, without samples, or without use of some tensors.
#include <algorithm>
#include <cmath>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "common/errors.h"
#include "common/status_matchers.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "worker/trainer_test_util.h"

namespace psring {
namespace {

using testing::ElementsAre;
using testing::HasSubstr;

// Two passes of 2 rows, and nothing goes out before the second.
TEST_F(TrainerTest, OfSeveralPassesTheLastLaunchesTheMeanOfAll) {
  InitializeParameters(model_->layout(), /*seed=*/1, parameters_.span().host());
  const auto initial = parameters_.span().host();
  const std::vector<float> parameters(initial.begin(), initial.end());
  ASSERT_OK(Train({.micro_batches = 2, .steps = 1}));
  EXPECT_THAT(exchange_.calls,
              ElementsAre("launch 0.0", "launch 0.1", "launch 0.2", "finish 0"));
  const StepRecord step = steps_[0];
  EXPECT_EQ(step.samples(), 4);

  // The same by hand, from the same parameters.
  std::copy(parameters.begin(), parameters.end(), initial.begin());
  Sampler sampler(20, 8, /*seed=*/1);
  const auto indices = sampler.WorkerBatch(0, /*workers=*/2, /*rank=*/1);
  ASSERT_OK_AND_ASSIGN(const DeviceBuffer features, device_->Allocate(2 * kFeatures));
  std::vector<int32_t> labels(2);
  std::vector<float> sum;
  double loss_sum = 0;
  for (const int64_t begin : {0, 2}) {
    data_.train.FillBatch(indices.subspan(begin, 2), features.span().data, labels.data());
    ASSERT_OK_AND_ASSIGN(
        const double loss,
        model_->Forward({.rows = 2, .features = features.span(), .labels = labels}));
    loss_sum += loss;
    ASSERT_OK(model_->Backward([](int) {}));
    const auto gradients = gradients_.span().host();
    if (sum.empty()) sum.resize(gradients.size());
    for (size_t i = 0; i < sum.size(); ++i) sum[i] += gradients[i];
  }
  EXPECT_EQ(step.loss(), loss_sum / 2);
  std::vector<float> expected;
  for (const Bucket& bucket : buckets_.buckets) {
    for (int64_t i = bucket.range.begin; i < bucket.range.end(); ++i) {
      expected.push_back(sum[i] * 0.5f);
    }
  }
  EXPECT_EQ(exchange_.launched_gradients, expected);
}

TEST_F(TrainerTest, PartsOfAStepAreSumsOverItsPasses) {
  ASSERT_OK(Train({.micro_batches = 4, .steps = 2}));
  const StepRecord& step = steps_[1];
  // As with one pass; of the others backward has no bucket to look at the clock for.
  EXPECT_EQ(step.data_ns(), 4 * 1'000'000);
  EXPECT_EQ(step.forward_ns(), 4 * 2'000'000);
  EXPECT_EQ(step.backward_ns(), 3 * 1'000'000 + 7'000'000);
  // A last look ends the step; the record of the one before has taken one too.
  EXPECT_EQ(step.data_ns() + step.forward_ns() + step.backward_ns() + step.exposed_ns() +
                step.optimizer_ns() + step.recording_ns() + 1'000'000,
            step.total_ns());
}

TEST_F(TrainerTest, APassThatIsLateMakesTheStepLate) {
  pace_ = std::make_unique<Pace>(
      PaceSettings{
          .timetable =
              Timetable{.forward = absl::Microseconds(10),
                        .ready = {absl::Milliseconds(40), absl::Milliseconds(30),
                                  absl::Milliseconds(20), absl::Milliseconds(10)}}},
      &time_, [this](absl::Duration missing) {
        // The wait before the first pass's last gradient takes too long.
        time_.Advance(waits_++ == 4 ? missing + absl::Milliseconds(50) : missing);
        return absl::OkStatus();
      });
  ASSERT_OK(Train({.micro_batches = 2, .steps = 2}));
  EXPECT_TRUE(steps_[0].late());
  EXPECT_FALSE(steps_[1].late());
}

// 20 samples are two batches of 8, and rank 0's part of another.
TEST_F(TrainerTest, WithoutSamplesZerosAreLaunched) {
  last_batch_ = 4;
  InitializeParameters(model_->layout(), /*seed=*/1, parameters_.span().host());
  ASSERT_OK(Train({.micro_batches = 2, .steps = 4, .digest_interval = 1}));
  ASSERT_EQ(steps_.size(), 4);
  for (const StepRecord& step : steps_) {
    const bool none = step.step() == 2;
    EXPECT_EQ(step.samples(), none ? 0 : 4);
    EXPECT_EQ(std::isnan(step.loss()), none);
    EXPECT_EQ(step.forward_ns() == 0, none);
    EXPECT_FALSE(step.late());
    EXPECT_EQ(step.buckets_size(), 3);
    EXPECT_TRUE(step.has_parameter_digest());
    for (int bucket = 0; bucket < 3; ++bucket) {
      EXPECT_EQ(exchange_.launched_zeros[3 * step.step() + bucket], none);
    }
  }
  EXPECT_EQ(exchange_.calls[8], "launch 2.0");
  EXPECT_EQ(exchange_.calls[10], "launch 2.2");
}

// As a branched model, without the labels: which tensors each Forward uses is told.
class ChoosingModel final : public Model {
 public:
  ChoosingModel(ParameterLayout layout, std::vector<std::vector<int>> unused)
      : layout_(std::move(layout)), plan_(std::move(unused)) {}

  const ParameterLayout& layout() const override { return layout_; }
  void Bind(DeviceSpan, DeviceSpan gradients) override { gradients_ = gradients; }
  absl::StatusOr<double> Forward(const Batch&) override {
    unused_ = plan_[forwards_++ % plan_.size()];
    return 1;
  }
  std::span<const int> unused() const override { return unused_; }
  absl::Status Backward(absl::FunctionRef<void(int tensor)> ready) override {
    for (int t = static_cast<int>(layout_.tensors().size()) - 1; t >= 0; --t) {
      if (std::find(unused_.begin(), unused_.end(), t) != unused_.end()) continue;
      const auto gradient = gradients_.Slice(layout_.tensors()[t].range).host();
      std::fill(gradient.begin(), gradient.end(), static_cast<float>(forwards_));
      ready(t);
    }
    return absl::OkStatus();
  }
  int64_t correct() const override { return 0; }

 private:
  const ParameterLayout layout_;
  const std::vector<std::vector<int>> plan_;  // By forward, over and over.
  DeviceSpan gradients_;
  std::vector<int> unused_;
  int64_t forwards_ = 0;
};

// The layout of four tensors is in three buckets: tensor 3, tensors 2 and 1, tensor 0.
class UnusedTest : public TrainerTest {
 protected:
  void Use(std::vector<std::vector<int>> unused) {
    model_ = std::make_unique<ChoosingModel>(model_->layout(), std::move(unused));
    model_->Bind(parameters_.span(), gradients_.span());
  }
  // What a step has launched of each tensor, whose elements are equal.
  std::vector<float> Launched(int64_t step) const {
    std::vector<float> flat(model_->layout().count());
    size_t next = step * flat.size();
    for (const Bucket& bucket : buckets_.buckets) {
      for (int64_t i = bucket.range.begin; i < bucket.range.end(); ++i) {
        flat[i] = exchange_.launched_gradients[next++];
      }
    }
    std::vector<float> of_tensors;
    for (const Tensor& tensor : model_->layout().tensors()) {
      of_tensors.push_back(flat[tensor.range.begin]);
      EXPECT_EQ(flat[tensor.range.begin], flat[tensor.range.end() - 1]);
    }
    return of_tensors;
  }
};

TEST_F(UnusedTest, TheirGradientsAreZeroAndBucketsStayInOrder) {
  ASSERT_EQ(model_->layout().tensors().size(), 4);
  Use({{1, 2}, {0}, {0, 1, 2, 3}});
  ASSERT_OK(Train({.steps = 3}));
  EXPECT_THAT(exchange_.calls,
              ElementsAre("launch 0.0", "launch 0.1", "launch 0.2", "finish 0",
                          "launch 1.0", "launch 1.1", "launch 1.2", "finish 1",
                          "launch 2.0", "launch 2.1", "launch 2.2", "finish 2"));
  EXPECT_THAT(Launched(0), ElementsAre(1, 0, 0, 1));
  EXPECT_THAT(Launched(1), ElementsAre(0, 2, 2, 2));
  EXPECT_THAT(Launched(2), ElementsAre(0, 0, 0, 0));
}

// In the passes of a step the gradients are 1 and 2, 3 and 4.
TEST_F(UnusedTest, APassWithoutUseIsZeroInTheMean) {
  Use({{1, 2}, {2, 3}});
  ASSERT_OK(Train({.micro_batches = 2, .steps = 2}));
  EXPECT_THAT(Launched(0), ElementsAre(1.5f, 1, 0, 0.5f));
  EXPECT_THAT(Launched(1), ElementsAre(3.5f, 2, 0, 1.5f));
}

TEST_F(UnusedTest, OrTheStepEndsWithAllOfThem) {
  Use({{}, {1, 2}});
  EXPECT_THAT(Train({.steps = 5, .unused_parameters = Training::ERROR}),
              StatusIs(absl::StatusCode::kFailedPrecondition,
                       "rank 1 has made no use of layer0.bias, layer1.weight in step 1, "
                       "and training.unused_parameters is ERROR"));
  EXPECT_THAT(exchange_.calls,
              ElementsAre("launch 0.0", "launch 0.1", "launch 0.2", "finish 0"));
}

TEST_F(UnusedTest, OfSeveralPassesThoseThatNoneHasUsed) {
  Use({{1, 2}, {0, 1}, {1, 2}, {3}});
  EXPECT_THAT(
      Train({.micro_batches = 2, .steps = 5, .unused_parameters = Training::ERROR}),
      StatusIs(absl::StatusCode::kFailedPrecondition,
               HasSubstr("no use of layer0.bias in step 0")));
  EXPECT_THAT(exchange_.calls, testing::IsEmpty());
}

TEST_F(UnusedTest, WhatIsUsedInSomePassIsNoError) {
  Use({{1, 2}, {0, 3}});
  EXPECT_OK(
      Train({.micro_batches = 2, .steps = 2, .unused_parameters = Training::ERROR}));
}

}  // namespace
}  // namespace psring
