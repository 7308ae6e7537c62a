#include "worker/mlp.h"

#include <algorithm>
#include <cmath>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "common/cpu_device.h"
#include "common/status_matchers.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"

namespace psring {
namespace {

using testing::ElementsAre;
using testing::ElementsAreArray;

constexpr int64_t kRows = 6;
const std::vector<int64_t> kWidths = {5, 8, 7, 3};

class MlpTest : public testing::Test {
 protected:
  void SetUp() override {
    ASSERT_OK_AND_ASSIGN(model_, MakeMlp(device_.get(), kWidths, kRows));
    const ParameterLayout& layout = model_->layout();
    ASSERT_OK_AND_ASSIGN(parameters_, device_->Allocate(layout.count()));
    ASSERT_OK_AND_ASSIGN(gradients_, device_->Allocate(layout.count()));
    ASSERT_OK_AND_ASSIGN(features_, device_->Allocate(kRows * kWidths[0]));
    InitializeParameters(layout, /*seed=*/3, parameters_.span().host());
    model_->Bind(parameters_.span(), gradients_.span());
    for (int64_t i = 0; i < features_.span().count; ++i) {
      features_.span().data[i] = std::sin(static_cast<float>(i) * 1.7f);
    }
  }

  double Loss() {
    const auto loss =
        model_->Forward({.rows = kRows, .features = features_.span(), .labels = labels_});
    EXPECT_OK(loss);
    return *loss;
  }

  std::unique_ptr<Device> device_ = MakeCpuDevice();
  std::unique_ptr<Model> model_;
  DeviceBuffer parameters_, gradients_, features_;
  std::vector<int32_t> labels_ = {0, 1, 2, 0, 1, 2};
};

TEST_F(MlpTest, LayoutIsInForwardOrder) {
  std::vector<std::string> names;
  for (const Tensor& tensor : model_->layout().tensors()) names.push_back(tensor.name);
  EXPECT_THAT(names, ElementsAre("layer0.weight", "layer0.bias", "layer1.weight",
                                 "layer1.bias", "layer2.weight", "layer2.bias"));
  EXPECT_EQ(model_->layout().count(), 5 * 8 + 8 + 8 * 7 + 7 + 7 * 3 + 3);
}

// Central differences. The loss is a smooth function but for the corners of ReLU, which
// the step is too small to reach from these parameters.
TEST_F(MlpTest, GradientsAreTheSlopesOfTheLoss) {
  Loss();
  ASSERT_OK(model_->Backward([](int) {}));
  constexpr float kStep = 2e-4f;
  for (int64_t i = 0; i < parameters_.span().count; ++i) {
    float& parameter = parameters_.span().data[i];
    const float before = parameter;
    parameter = before + kStep;
    const double above = Loss();
    parameter = before - kStep;
    const double below = Loss();
    parameter = before;
    EXPECT_NEAR(gradients_.span().data[i], (above - below) / (2 * kStep), 2e-3) << i;
  }
}

// ready(t) promises that gradient t is final and parameter t has no further use: as soon
// as it is called, the test spoils the parameter and keeps the gradient.
TEST_F(MlpTest, ReadyTensorsMayBeOverwrittenAtOnce) {
  Loss();
  ASSERT_OK(model_->Backward([](int) {}));
  const std::vector<float> expected(gradients_.span().data,
                                    gradients_.span().data + gradients_.span().count);
  Loss();
  std::vector<int> order;
  std::vector<float> kept(expected.size());
  ASSERT_OK(model_->Backward([&](int tensor) {
    order.push_back(tensor);
    const Range range = model_->layout().tensors()[tensor].range;
    for (int64_t i = range.begin; i < range.end(); ++i) {
      kept[i] = gradients_.span().data[i];
      parameters_.span().data[i] = NAN;
    }
  }));
  EXPECT_THAT(order, ElementsAre(5, 4, 3, 2, 1, 0));
  EXPECT_EQ(kept, expected);
}

class BranchedMlpTest : public MlpTest {
 protected:
  static constexpr int kBranches = 3;

  void SetUp() override {
    MlpTest::SetUp();
    plain_ = std::move(model_);
    plain_parameters_ = parameters_;
    plain_gradients_ = gradients_;
    ASSERT_OK_AND_ASSIGN(model_, MakeMlp(device_.get(), kWidths, kRows, kBranches));
    const int64_t count = model_->layout().count();
    ASSERT_OK_AND_ASSIGN(parameters_, device_->Allocate(count));
    ASSERT_OK_AND_ASSIGN(gradients_, device_->Allocate(count));
    InitializeParameters(model_->layout(), /*seed=*/3, parameters_.span().host());
    model_->Bind(parameters_.span(), gradients_.span());
  }

  // Tensors of the branched model that are those of the plain one, in its order.
  static std::vector<int> TensorsThrough(int branch) {
    return {0, 1, 2 + 2 * branch, 3 + 2 * branch, 8, 9};
  }

  std::unique_ptr<Model> plain_;
  DeviceBuffer plain_parameters_, plain_gradients_;
};

TEST_F(BranchedMlpTest, TheLastHiddenLayerIsThereForEachBranch) {
  std::vector<std::string> names;
  for (const Tensor& tensor : model_->layout().tensors()) names.push_back(tensor.name);
  EXPECT_THAT(names, ElementsAre("layer0.weight", "layer0.bias", "layer1.branch0.weight",
                                 "layer1.branch0.bias", "layer1.branch1.weight",
                                 "layer1.branch1.bias", "layer1.branch2.weight",
                                 "layer1.branch2.bias", "layer2.weight", "layer2.bias"));
  EXPECT_EQ(model_->layout().count(), 5 * 8 + 8 + 3 * (8 * 7 + 7) + 7 * 3 + 3);
}

// With a branch's parameters, a plain model has its loss and its gradients, bit by bit.
TEST_F(BranchedMlpTest, IsThePlainModelOfTheBranchThatTheFirstLabelChooses) {
  for (int branch = 0; branch < kBranches; ++branch) {
    const std::vector<int> through = TensorsThrough(branch);
    labels_[0] = branch;
    for (size_t t = 0; t < through.size(); ++t) {
      const auto from =
          parameters_.span().Slice(model_->layout().tensors()[through[t]].range).host();
      std::copy(from.begin(), from.end(),
                plain_parameters_.span()
                    .Slice(plain_->layout().tensors()[t].range)
                    .host()
                    .begin());
    }
    const Batch batch = {.rows = kRows, .features = features_.span(), .labels = labels_};
    ASSERT_OK_AND_ASSIGN(const double plain_loss, plain_->Forward(batch));
    ASSERT_OK(plain_->Backward([](int) {}));
    EXPECT_EQ(Loss(), plain_loss);
    std::vector<int> unused;
    for (int t = 0; t < 10; ++t) {
      if (std::find(through.begin(), through.end(), t) == through.end()) {
        unused.push_back(t);
      }
    }
    EXPECT_THAT(model_->unused(), ElementsAreArray(unused));
    std::vector<int> ready;
    ASSERT_OK(model_->Backward([&](int tensor) { ready.push_back(tensor); }));
    EXPECT_THAT(ready, ElementsAreArray(through.rbegin(), through.rend()));
    for (size_t t = 0; t < through.size(); ++t) {
      EXPECT_THAT(
          gradients_.span().Slice(model_->layout().tensors()[through[t]].range).host(),
          ElementsAreArray(
              plain_gradients_.span().Slice(plain_->layout().tensors()[t].range).host()))
          << "branch " << branch << ", tensor " << t;
    }
  }
}

TEST_F(BranchedMlpTest, OtherParametersHaveNoUse) {
  labels_[0] = 1;
  const double loss = Loss();
  for (const int t : model_->unused()) {
    const auto values =
        parameters_.span().Slice(model_->layout().tensors()[t].range).host();
    std::fill(values.begin(), values.end(), NAN);
  }
  EXPECT_EQ(Loss(), loss);
}

TEST_F(MlpTest, CountsRowsWithTheirLabelOnTop) {
  Loss();
  int64_t correct = 0;
  for (int32_t label = 0; label < 3; ++label) {
    labels_.assign(kRows, label);
    Loss();
    correct += model_->correct();
  }
  EXPECT_EQ(correct, kRows) << "each row has one label on top";
}

TEST_F(MlpTest, TakesFewerRowsThanItHasRoomFor) {
  ASSERT_OK(model_->Forward(
      {.rows = 2,
       .features = features_.span().Slice({.begin = 0, .count = 2 * kWidths[0]}),
       .labels = std::span(labels_).first(2)}));
  EXPECT_OK(model_->Backward([](int) {}));
}

TEST(InitializeParametersTest, DependsOnSeedAndIndexAlone) {
  const ParameterLayout layout = MlpLayout({784, 256, 10});
  std::vector<float> a(layout.count()), b(layout.count());
  InitializeParameters(layout, 1, a);
  InitializeParameters(layout, 1, b);
  EXPECT_EQ(a, b);
  InitializeParameters(layout, 2, b);
  EXPECT_NE(a, b);

  const double bound = std::sqrt(6.0 / 784);
  const Range weights = layout.tensors()[0].range;
  double sum = 0, largest = 0;
  for (int64_t i = weights.begin; i < weights.end(); ++i) {
    sum += a[i];
    largest = std::max<double>(largest, std::fabs(a[i]));
  }
  EXPECT_LE(largest, bound);
  EXPECT_GT(largest, 0.99 * bound);
  // The mean of n uniform values has a deviation of bound / sqrt(3 n); 5 of them.
  EXPECT_NEAR(sum / static_cast<double>(weights.count), 0,
              5 * bound / std::sqrt(3.0 * static_cast<double>(weights.count)));
  const Range bias = layout.tensors()[1].range;
  for (int64_t i = bias.begin; i < bias.end(); ++i) EXPECT_EQ(a[i], 0.0f);
}

}  // namespace
}  // namespace psring
