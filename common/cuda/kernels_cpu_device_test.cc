// Kernels against the CPU device, which computes the same by oneDNN.
#include <cstdint>
#include <memory>
#include <vector>

#include "common/cpu_device.h"
#include "common/cuda/elementwise_kernels.h"
#include "common/cuda/emulator_test_util.h"
#include "common/cuda/reduction_kernels.h"
#include "common/status_matchers.h"
#include "gtest/gtest.h"

namespace psring {
namespace {

constexpr double kUnit = 0x1p-24;  // Half of a float's last place, relative.

class KernelsCpuDeviceTest : public testing::Test {
 protected:
  DeviceSpan Fill(const std::vector<float>& values) {
    auto buffer = device_->Allocate(static_cast<int64_t>(values.size()));
    EXPECT_OK(buffer);
    std::copy(values.begin(), values.end(), buffer->span().data);
    buffers_.push_back(*std::move(buffer));
    return buffers_.back().span();
  }
  static std::vector<float> Read(DeviceSpan span) {
    return {span.host().begin(), span.host().end()};
  }

  std::unique_ptr<Device> device_ = MakeCpuDevice();
  std::vector<DeviceBuffer> buffers_;
};

// Of one input that is 1 the product is the weights, exactly.
TEST_F(KernelsCpuDeviceTest, AddBiasGivesTheBitsOfALayer) {
  constexpr LinearShape kShape{.rows = 9, .inputs = 1, .outputs = 37};
  const std::vector<float> weights = ValuesOf(kShape.outputs, 1),
                           bias = ValuesOf(kShape.outputs, 2);
  for (const bool relu : {false, true}) {
    const DeviceSpan output = Fill(std::vector<float>(kShape.rows * kShape.outputs));
    ASSERT_OK(device_->LinearForward(kShape, Fill(std::vector<float>(kShape.rows, 1.0f)),
                                     Fill(weights), Fill(bias), relu, output));
    std::vector<float> values;
    for (int64_t row = 0; row < kShape.rows; ++row) {
      values.insert(values.end(), weights.begin(), weights.end());
    }
    ASSERT_OK(Emulate(
        CallAddBias(kShape.rows, kShape.outputs, bias.data(), relu, values.data())));
    EXPECT_EQ(BitsOf(values), BitsOf(Read(output)));
  }
}

TEST_F(KernelsCpuDeviceTest, MaskGradientGivesTheBitsOfReluBackward) {
  constexpr int64_t kCount = 1003;
  std::vector<float> output = ValuesOf(kCount, 3), gradient = ValuesOf(kCount, 4);
  output[0] = 0.0f, output[1] = -0.0f;
  const DeviceSpan expected = Fill(gradient);
  ASSERT_OK(device_->ReluBackward(Fill(output), expected));
  ASSERT_OK(Emulate(CallMaskGradient(kCount, output.data(), gradient.data())));
  EXPECT_EQ(BitsOf(gradient), BitsOf(Read(expected)));
}

TEST_F(KernelsCpuDeviceTest, SumColumnsIsWithinRoundingOfTheBiasGradient) {
  constexpr LinearShape kShape{.rows = 300, .inputs = 2, .outputs = 45};
  const std::vector<float> gradient = ValuesOf(kShape.rows * kShape.outputs, 5);
  const DeviceSpan bias_gradient = Fill(std::vector<float>(kShape.outputs));
  ASSERT_OK(device_->LinearBackwardParameters(
      kShape, Fill(ValuesOf(kShape.rows * kShape.inputs, 6)), Fill(gradient),
      Fill(std::vector<float>(kShape.inputs * kShape.outputs)), bias_gradient));
  std::vector<float> sums(kShape.outputs);
  ASSERT_OK(
      Emulate(CallSumColumns(kShape.rows, kShape.outputs, gradient.data(), sums.data())));
  for (int64_t c = 0; c < kShape.outputs; ++c) {
    // Each of two sums of rows - 1 additions: a unit of at most the sum of magnitudes.
    EXPECT_NEAR(sums[c], bias_gradient.data[c],
                2 * kUnit * static_cast<double>(kShape.rows * kShape.rows));
  }
}

TEST_F(KernelsCpuDeviceTest, SoftmaxCrossEntropyIsThatOfTheDevice) {
  constexpr int64_t kRows = 19, kClasses = 10;
  std::vector<float> logits = ValuesOf(kRows * kClasses, 7);
  for (float& logit : logits) logit *= 8;
  std::vector<int32_t> labels;
  for (int64_t row = 0; row < kRows; ++row) {
    labels.push_back(static_cast<int32_t>(row * 3 % kClasses));
  }
  const DeviceSpan expected = Fill(logits);
  ASSERT_OK_AND_ASSIGN(const double expected_loss,
                       device_->SoftmaxCrossEntropy(kRows, kClasses, labels, expected));
  std::vector<float> losses(kRows);
  uint64_t correct = 0;
  double loss = 0;
  ASSERT_OK(Emulate(CallSoftmaxCrossEntropy(kRows, kClasses, labels.data(), logits.data(),
                                            losses.data(), &correct)));
  ASSERT_OK(Emulate(CallMean(kRows, losses.data(), &loss)));
  // reduction_kernels_test.cc derives how far a kernel's log-probability is from the
  // exact one: here, with logits at most 16 apart, by 3 * 16 + 2 + 10 + 3 * log(10) < 70
  // units. oneDNN's is allowed as much again, and its exponential 8 units for our two.
  constexpr double kLogError = 2 * 70 * kUnit;
  EXPECT_NEAR(loss, expected_loss, kLogError);
  for (int64_t i = 0; i < kRows * kClasses; ++i) {
    EXPECT_NEAR(logits[i], expected.data[i], (kLogError + 16 * kUnit) / kRows);
  }
}

}  // namespace
}  // namespace psring
