#include "worker/mlp.h"

#include <cmath>
#include <memory>
#include <vector>

#include "common/cpu_device.h"
#include "common/status_matchers.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"

namespace psring {
namespace {

using testing::ElementsAre;

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
