#include "common/optimizer.h"

#include <vector>

#include "gmock/gmock.h"
#include "gtest/gtest.h"

namespace psring {
namespace {

using testing::ElementsAre;

Optimizer Sgd3(float learning_rate, float momentum, float weight_decay) {
  Optimizer optimizer;
  optimizer.mutable_sgd()->set_learning_rate(learning_rate);
  optimizer.mutable_sgd()->set_momentum(momentum);
  optimizer.mutable_sgd()->set_weight_decay(weight_decay);
  return optimizer;
}

// All values are exact in binary, so the expectations are what one computes by hand.
TEST(SliceOptimizerTest, PlainSgdByHand) {
  SliceOptimizer optimizer(Sgd3(0.5f, 0, 0), 2);
  std::vector<float> parameters = {1.0f, -2.0f};
  optimizer.Apply(0, parameters, std::vector<float>{2.0f, 4.0f});
  EXPECT_THAT(parameters, ElementsAre(0.0f, -4.0f));
  EXPECT_EQ(optimizer.state_bytes(), 0);
}

TEST(SliceOptimizerTest, WeightDecayAddsToTheGradient) {
  SliceOptimizer optimizer(Sgd3(0.5f, 0, 0.25f), 1);
  std::vector<float> parameters = {4.0f};
  optimizer.Apply(0, parameters, std::vector<float>{1.0f});
  EXPECT_THAT(parameters, ElementsAre(4.0f - 0.5f * (1.0f + 0.25f * 4.0f)));
}

TEST(SliceOptimizerTest, MomentumByHandOverTwoSteps) {
  SliceOptimizer optimizer(Sgd3(0.5f, 0.5f, 0), 1);
  std::vector<float> parameters = {8.0f};
  optimizer.Apply(0, parameters, std::vector<float>{4.0f});  // velocity 4
  EXPECT_THAT(parameters, ElementsAre(6.0f));
  optimizer.Apply(0, parameters, std::vector<float>{2.0f});  // velocity 0.5 * 4 + 2 = 4
  EXPECT_THAT(parameters, ElementsAre(4.0f));
  EXPECT_EQ(optimizer.state_bytes(), 4);
}

TEST(SliceOptimizerTest, CutSlicesGiveTheSameBits) {
  constexpr int kCount = 103;
  const Optimizer settings = Sgd3(0.1f, 0.9f, 1e-4f);
  std::vector<float> whole(kCount), gradient(kCount);
  for (int i = 0; i < kCount; ++i) {
    whole[i] = 1.0f / static_cast<float>(i + 3);
    gradient[i] = static_cast<float>(i % 7) * 0.3f - 1.0f;
  }
  std::vector<float> cut = whole;
  SliceOptimizer at_once(settings, kCount), in_parts(settings, kCount);
  for (int step = 0; step < 5; ++step) {
    at_once.Apply(0, whole, gradient);
    for (int begin = 0; begin < kCount; begin += 17) {
      const int count = std::min(17, kCount - begin);
      in_parts.Apply(begin, std::span(cut).subspan(begin, count),
                     std::span(gradient).subspan(begin, count));
    }
    EXPECT_EQ(whole, cut) << "after step " << step;
  }
}

}  // namespace
}  // namespace psring
