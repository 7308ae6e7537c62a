#include "worker/synthetic_model.h"

#include <cmath>
#include <set>
#include <vector>

#include "common/cpu_device.h"
#include "common/status_matchers.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"

namespace psring {
namespace {

using testing::ElementsAre;

// Rank 0's gradient is m / 1024.
double MultipleOf(int64_t step, int64_t element) {
  return double{SyntheticGradient(0, step, element)} * 1024;
}

TEST(SyntheticGradientTest, WholeMultiplesThatAreNotZero) {
  std::set<double> seen;
  for (int64_t element = 0; element < 10'000; ++element) {
    seen.insert(MultipleOf(/*step=*/3, element));
  }
  EXPECT_EQ(seen.size(), 64);
  EXPECT_FALSE(seen.contains(0));
  EXPECT_EQ(*seen.begin(), -32);
  EXPECT_EQ(*seen.rbegin(), 32);
}

TEST(SyntheticGradientTest, NeighboursAndStepsDiffer) {
  int64_t same_element = 0;
  int64_t same_step = 0;
  for (int64_t i = 0; i < 10'000; ++i) {
    same_element += SyntheticGradient(0, 5, i) == SyntheticGradient(0, 5, i + 1);
    same_step += SyntheticGradient(0, 5, i) == SyntheticGradient(0, 6, i);
  }
  EXPECT_EQ(same_element, 0);
  EXPECT_EQ(same_step, 0);
}

TEST(SyntheticGradientTest, SumsAreExactInEveryOrder) {
  constexpr int kRanks = 1000;
  constexpr int kSumOfRanks = kRanks * (kRanks + 1) / 2;
  for (int64_t element = 0; element < 64; ++element) {
    float up = 0, down = 0;
    for (int rank = 0; rank < kRanks; ++rank) {
      up += SyntheticGradient(rank, 1, element);
      down += SyntheticGradient(kRanks - 1 - rank, 1, element);
    }
    EXPECT_EQ(up, down);
    EXPECT_EQ(up, MultipleOf(1, element) * kSumOfRanks / 1024);
  }
}

// Of a sum over four ranks, what is wrong says whose fault it is.
TEST(SyntheticGradientTest, AWrongSumNamesItsCulprit) {
  const auto sum_without = [](int missing) {
    float sum = 0;
    for (int rank = 0; rank < 4; ++rank) {
      if (rank != missing) sum += SyntheticGradient(rank, 2, 17);
    }
    return sum;
  };
  for (int missing = 0; missing < 4; ++missing) {
    const float off = sum_without(-1) - sum_without(missing);
    EXPECT_EQ(off / SyntheticGradient(0, 2, 17), missing + 1);
  }
}

TEST(SyntheticModelTest, WritesTheGradientsOfEachStepFromTheLastTensor) {
  ParameterLayout layout;
  for (const int64_t count : {5, 1, 40}) layout.Add("tensor", {count});
  const auto device = MakeCpuDevice();
  ASSERT_OK_AND_ASSIGN(const DeviceBuffer parameters, device->Allocate(46));
  ASSERT_OK_AND_ASSIGN(const DeviceBuffer gradients, device->Allocate(46));
  const auto model = MakeSyntheticModel(layout, /*rank=*/2);
  model->Bind(parameters.span(), gradients.span());
  for (const int64_t step : {0, 1}) {
    ASSERT_OK_AND_ASSIGN(const double loss, model->Forward(Batch()));
    EXPECT_TRUE(std::isnan(loss));
    std::vector<int> order;
    ASSERT_OK(model->Backward([&](int tensor) {
      order.push_back(tensor);
      const Range range = layout.tensors()[tensor].range;
      for (int64_t i = range.begin; i < range.end(); ++i) {
        EXPECT_EQ(gradients.span().host()[i], SyntheticGradient(2, step, i));
      }
    }));
    EXPECT_THAT(order, ElementsAre(2, 1, 0));
  }
}

TEST(SyntheticModelTest, PassesOfAStepHaveItsGradients) {
  ParameterLayout layout;
  layout.Add("tensor", {40});
  const auto device = MakeCpuDevice();
  ASSERT_OK_AND_ASSIGN(const DeviceBuffer gradients, device->Allocate(40));
  const auto model = MakeSyntheticModel(layout, /*rank=*/2, /*passes=*/3);
  model->Bind(gradients.span(), gradients.span());
  for (int forward = 0; forward < 7; ++forward) {
    ASSERT_OK(model->Forward(Batch()));
    ASSERT_OK(model->Backward([](int) {}));
    EXPECT_EQ(gradients.span().host()[5], SyntheticGradient(2, forward / 3, 5));
  }
}

TEST(SyntheticModelTest, AJobThatGoesOnMakesTheGradientsThatAreNext) {
  ParameterLayout layout;
  layout.Add("tensor", {40});
  const auto device = MakeCpuDevice();
  ASSERT_OK_AND_ASSIGN(const DeviceBuffer gradients, device->Allocate(40));
  const auto model =
      MakeSyntheticModel(layout, /*rank=*/2, /*passes=*/2, /*first_step=*/7);
  model->Bind(gradients.span(), gradients.span());
  for (int forward = 0; forward < 4; ++forward) {
    ASSERT_OK(model->Forward(Batch()));
    ASSERT_OK(model->Backward([](int) {}));
    EXPECT_EQ(gradients.span().host()[5], SyntheticGradient(2, 7 + forward / 2, 5));
  }
}

// At the most, as a trainer makes it.
TEST(SyntheticModelTest, TheMeanOverPassesIsExact) {
  for (int64_t element = 0; element < 64; ++element) {
    const float gradient = SyntheticGradient(999, 1, element);
    float sum = gradient;
    for (int64_t pass = 1; pass < kMostExactPasses; ++pass) sum += gradient;
    EXPECT_EQ(sum * (1.0f / static_cast<float>(kMostExactPasses)), gradient);
  }
}

}  // namespace
}  // namespace psring
