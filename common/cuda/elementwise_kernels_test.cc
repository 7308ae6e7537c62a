// Element-wise kernels give the bits of the processor's loops.
#include "common/cuda/elementwise_kernels.h"

#include <cmath>
#include <cstdint>
#include <limits>
#include <string>
#include <vector>

#include "common/arithmetic.h"
#include "common/cuda/emulator_test_util.h"
#include "common/optimizer.h"
#include "common/sixteen_bits.h"
#include "common/status_matchers.h"
#include "common/update_factors.h"
#include "gtest/gtest.h"

namespace psring {
namespace {

constexpr float kNan = std::numeric_limits<float>::quiet_NaN();
constexpr float kInfinity = std::numeric_limits<float>::infinity();

TEST(ElementwiseKernelsTest, AddBiasAndRelu) {
  struct Size {
    int64_t rows, columns;
  };
  for (const Size& size :
       {Size{0, 5}, Size{1, 1}, Size{7, 10}, Size{5, 3}, Size{33, 64}, Size{3, 1001}}) {
    const int64_t count = size.rows * size.columns;
    std::vector<float> values = ValuesOf(count, 1);
    std::vector<float> bias = ValuesOf(size.columns, 2);
    if (count > 3) {
      values[1] = kNan;
      values[2] = -bias[2 % size.columns];  // 0.
      bias[0] = -0.0f;
      values[0] = -0.0f;
    }
    for (const bool relu : {false, true}) {
      std::vector<float> expected = values;
      for (int64_t i = 0; i < count; ++i) {
        expected[i] += bias[i % size.columns];
        if (relu && !(expected[i] > 0) && !std::isnan(expected[i])) expected[i] = 0.0f;
      }
      InEveryWay([&](int64_t offset, ThreadOrder order, int64_t blocks) {
        PlacedValues<float> placed(values, offset);
        ASSERT_OK(EmulateWith(
            CallAddBias(size.rows, size.columns, bias.data(), relu, placed.data()), order,
            blocks));
        EXPECT_EQ(BitsOf(placed.values()), BitsOf(expected))
            << size.rows << " x " << size.columns << ", relu " << relu;
      });
    }
  }
}

TEST(ElementwiseKernelsTest, MaskGradientLetsThroughWhereTheOutputIsPositive) {
  for (const int64_t count : kEmulatedCounts) {
    std::vector<float> outputs = ValuesOf(count, 1);
    if (count > 4) outputs[1] = 0, outputs[2] = -0.0f, outputs[3] = kNan;
    const std::vector<float> gradients = ValuesOf(count, 2);
    std::vector<float> expected = gradients;
    for (int64_t i = 0; i < count; ++i) {
      if (!(outputs[i] > 0)) expected[i] = 0;
    }
    InEveryWay([&](int64_t offset, ThreadOrder order, int64_t blocks) {
      PlacedValues<float> output(outputs, 1), gradient(gradients, offset);
      ASSERT_OK(EmulateWith(CallMaskGradient(count, output.data(), gradient.data()),
                            order, blocks));
      EXPECT_EQ(BitsOf(gradient.values()), BitsOf(expected)) << count;
    });
  }
}

TEST(ElementwiseKernelsTest, AddToAndScaleByAreArithmetics) {
  for (const int64_t count : kEmulatedCounts) {
    const std::vector<float> values = ValuesOf(count, 1), addends = ValuesOf(count, 2);
    std::vector<float> sums = values, scaled = values;
    AddInPlace(sums, addends);
    ScaleInPlace(scaled, 0.3f);
    InEveryWay([&](int64_t offset, ThreadOrder order, int64_t blocks) {
      PlacedValues<float> sum(values, offset), addend(addends, offset);
      ASSERT_OK(EmulateWith(CallAddTo(count, addend.data(), sum.data()), order, blocks));
      EXPECT_EQ(BitsOf(sum.values()), BitsOf(sums)) << count;
      PlacedValues<float> product(values, offset);
      ASSERT_OK(EmulateWith(CallScaleBy(count, 0.3f, product.data()), order, blocks));
      EXPECT_EQ(BitsOf(product.values()), BitsOf(scaled)) << count;
    });
  }
}

TEST(ElementwiseKernelsTest, ZeroWhereFoundZeroesAllOrNothing) {
  for (const int64_t count : kEmulatedCounts) {
    const std::vector<float> values = ValuesOf(count, 1);
    InEveryWay([&](int64_t offset, ThreadOrder order, int64_t blocks) {
      for (const uint64_t found : {kNothingFound, uint64_t{0}, uint64_t{7}}) {
        PlacedValues<float> placed(values, offset);
        uint64_t zeroed = 5;
        ASSERT_OK(EmulateWith(CallZeroWhereFound(count, &found, placed.data(), &zeroed),
                              order, blocks));
        const bool zero = found != kNothingFound && count > 0;
        EXPECT_EQ(zeroed, zero ? 6u : 5u);
        EXPECT_EQ(BitsOf(placed.values()),
                  BitsOf(zero ? std::vector<float>(count) : values));
      }
    });
  }
}

// Ties, both ends of the subnormal and of the normal numbers, and what is beyond.
std::vector<float> HardToRound(int64_t count) {
  std::vector<float> values = {
      0.0f,       -0.0f,        0x1.01p0f,  0x1.03p0f, 0x1.002p0f, 0x1.006p0f,
      0x1p-14f,   0x1.ffcp-15f, 0x1p-24f,   0x1p-25f,  0x1.8p-24f, 0x1p-126f,
      0x1p-149f,  65504.0f,     65519.996f, 65520.0f,  -65520.0f,  3.3e38f,
      3.4028e38f, kInfinity,    -kInfinity, kNan,      -kNan,      0x1.fffp-1f};
  const std::vector<float> more = ValuesOf(count, 3);
  values.insert(values.end(), more.begin(), more.end());
  values.resize(count);
  return values;
}

TEST(ElementwiseKernelsTest, RoundAndWidenAreSixteenBits) {
  for (const SixteenBits type : {SixteenBits::kBf16, SixteenBits::kFp16}) {
    for (const int64_t count : kEmulatedCounts) {
      const std::vector<float> values = HardToRound(count);
      for (const float factor : {1.0f, 0.3f}) {
        std::vector<uint16_t> rounded(count);
        RoundTo(type, values, factor, rounded);
        std::vector<float> widened(count);
        Widen(type, rounded, widened);
        InEveryWay([&](int64_t offset, ThreadOrder order, int64_t blocks) {
          PlacedValues<float> from(values, offset),
              back(std::vector<float>(count), offset);
          PlacedValues<uint16_t> to(std::vector<uint16_t>(count), offset);
          const auto emulate = [&](const auto& call) {
            return EmulateWith(call, order, blocks);
          };
          ASSERT_OK(
              WithRoundValues(type, count, from.data(), factor, to.data(), emulate));
          EXPECT_EQ(BitsOf(to.values()), BitsOf(rounded)) << count;
          ASSERT_OK(WithWidenValues(type, count, to.data(), back.data(), emulate));
          EXPECT_EQ(BitsOf(back.values()), BitsOf(widened)) << count;
        });
      }
    }
  }
}

struct Case {
  std::string name;
  Optimizer settings;
};

std::vector<Case> AllOptimizers() {
  std::vector<Case> all = {{"sgd", {}},  {"momentum", {}}, {"nesterov", {}},
                           {"adam", {}}, {"adamw", {}},    {"adagrad", {}}};
  for (int i = 0; i < 3; ++i) {
    Sgd* const sgd = all[i].settings.mutable_sgd();
    sgd->set_weight_decay(0.01f);
    sgd->set_momentum(i == 0 ? 0.0f : 0.9f);
    sgd->set_nesterov(i == 2);
  }
  for (Adam* const adam :
       {all[3].settings.mutable_adam(), all[4].settings.mutable_adamw()}) {
    adam->set_beta1(0.9f);
    adam->set_beta2(0.999f);
    adam->set_epsilon(1e-8f);
    adam->set_weight_decay(0.01f);
  }
  Adagrad* const adagrad = all[5].settings.mutable_adagrad();
  adagrad->set_epsilon(1e-10f);
  adagrad->set_weight_decay(0.01f);
  adagrad->set_initial_accumulator(0.1f);
  return all;
}

// Three steps of a processor's optimizer after ScaleInPlace, and of the kernel.
TEST(ElementwiseKernelsTest, UpdateParametersIsTheOptimizer) {
  constexpr float kScale = 1.0f / 3;
  for (const Case& c : AllOptimizers()) {
    for (const int64_t count : kEmulatedCounts) {
      const std::vector<float> initial = ValuesOf(count, 1);
      std::vector<StepConstants> constants;
      std::vector<std::vector<float>> gradients;
      std::vector<float> expected = initial;
      SliceOptimizer optimizer(c.settings, count);
      std::vector<std::vector<float>> initial_state;
      for (const auto& array : optimizer.state()) {
        initial_state.emplace_back(array.begin(), array.end());
      }
      for (int step = 0; step < 3; ++step) {
        constants.push_back({.learning_rate = 0.1f / static_cast<float>(step + 1),
                             .adam_step_size = 0.2f,
                             .adam_root_scale = 1.5f});
        gradients.push_back(ValuesOf(count, 2 + step));
        std::vector<float> scaled = gradients.back();
        ScaleInPlace(scaled, kScale);
        optimizer.Apply(constants.back(), 0, expected, scaled);
      }
      InEveryWay([&](int64_t offset, ThreadOrder order, int64_t blocks) {
        PlacedValues<float> parameters(initial, offset);
        std::vector<PlacedValues<float>> state;
        state.reserve(2);
        for (const auto& array : initial_state) state.emplace_back(array, offset);
        const UpdateRule rule = RuleOf(c.settings);
        const bool only_second = rule == UpdateRule::kAdagrad;
        for (size_t step = 0; step < constants.size(); ++step) {
          PlacedValues<float> gradient(gradients[step], offset);
          const UpdatedSlice slice = {
              .count = count,
              .gradient = gradient.data(),
              .parameters = parameters.data(),
              .first = state.empty() || only_second ? nullptr : state.front().data(),
              .second = only_second || state.size() > 1 ? state.back().data() : nullptr};
          ASSERT_OK(WithUpdateParameters(
              rule, FactorsOf(c.settings, constants[step]), kScale, slice,
              [&](const auto& call) { return EmulateWith(call, order, blocks); }));
          EXPECT_EQ(gradient.values(), gradients[step]);
        }
        EXPECT_EQ(BitsOf(parameters.values()), BitsOf(expected))
            << c.name << ", " << count;
        const auto arrays = optimizer.state();
        for (size_t i = 0; i < state.size(); ++i) {
          EXPECT_EQ(BitsOf(state[i].values()),
                    BitsOf(std::vector<float>(arrays[i].begin(), arrays[i].end())))
              << c.name << ", " << count;
        }
      });
    }
  }
}

}  // namespace
}  // namespace psring
