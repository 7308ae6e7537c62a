// The device against plain loops in double precision.
#include "common/cpu_device.h"

#include <cmath>
#include <memory>
#include <vector>

#include "common/status_matchers.h"
#include "gtest/gtest.h"

namespace psring {
namespace {

constexpr LinearShape kShape{.rows = 13, .inputs = 37, .outputs = 21};

class CpuDeviceTest : public testing::Test {
 protected:
  DeviceSpan Fill(int64_t count, uint32_t seed) {
    auto buffer = device_->Allocate(count);
    EXPECT_OK(buffer);
    for (float& value : buffer->span().host()) {
      seed = seed * 1664525u + 1013904223u;
      value = static_cast<float>(static_cast<int32_t>(seed)) * 0x1p-31f;
    }
    buffers_.push_back(*std::move(buffer));
    return buffers_.back().span();
  }

  // A sum of `terms` products of values in [-1, 1], in any order, is within
  // terms * epsilon of its exact value, relative to the sum of magnitudes (<= terms).
  static double Tolerance(int64_t terms) {
    return static_cast<double>(terms) * static_cast<double>(terms) * 0x1p-24;
  }

  std::unique_ptr<Device> device_ = MakeCpuDevice();
  std::vector<DeviceBuffer> buffers_;
};

TEST_F(CpuDeviceTest, MemoryStartsAtZero) {
  ASSERT_OK_AND_ASSIGN(const DeviceBuffer buffer, device_->Allocate(100));
  for (const float value : buffer.span().host()) EXPECT_EQ(value, 0.0f);
  EXPECT_EQ(buffer.bytes(), 400);
  EXPECT_OK(device_->Allocate(0));
}

TEST_F(CpuDeviceTest, LinearForward) {
  const auto [rows, inputs, outputs] = kShape;
  const DeviceSpan input = Fill(rows * inputs, 1), weights = Fill(inputs * outputs, 2),
                   bias = Fill(outputs, 3), output = Fill(rows * outputs, 4);
  for (const bool relu : {false, true}) {
    ASSERT_OK(device_->LinearForward(kShape, input, weights, bias, relu, output));
    for (int64_t r = 0; r < rows; ++r) {
      for (int64_t o = 0; o < outputs; ++o) {
        double sum = bias.data[o];
        for (int64_t i = 0; i < inputs; ++i) {
          sum += static_cast<double>(input.data[r * inputs + i]) *
                 weights.data[i * outputs + o];
        }
        if (relu) sum = std::max(sum, 0.0);
        EXPECT_NEAR(output.data[r * outputs + o], sum, Tolerance(inputs + 1));
      }
    }
  }
}

TEST_F(CpuDeviceTest, LinearBackward) {
  const auto [rows, inputs, outputs] = kShape;
  const DeviceSpan input = Fill(rows * inputs, 1), weights = Fill(inputs * outputs, 2),
                   gradient = Fill(rows * outputs, 3), dw = Fill(inputs * outputs, 4),
                   db = Fill(outputs, 5), dx = Fill(rows * inputs, 6);
  ASSERT_OK(device_->LinearBackwardParameters(kShape, input, gradient, dw, db));
  ASSERT_OK(device_->LinearBackwardInput(kShape, weights, gradient, dx));
  for (int64_t o = 0; o < outputs; ++o) {
    double bias_sum = 0;
    for (int64_t r = 0; r < rows; ++r) bias_sum += gradient.data[r * outputs + o];
    EXPECT_NEAR(db.data[o], bias_sum, Tolerance(rows));
    for (int64_t i = 0; i < inputs; ++i) {
      double sum = 0;
      for (int64_t r = 0; r < rows; ++r) {
        sum += static_cast<double>(input.data[r * inputs + i]) *
               gradient.data[r * outputs + o];
      }
      EXPECT_NEAR(dw.data[i * outputs + o], sum, Tolerance(rows));
    }
  }
  for (int64_t r = 0; r < rows; ++r) {
    for (int64_t i = 0; i < inputs; ++i) {
      double sum = 0;
      for (int64_t o = 0; o < outputs; ++o) {
        sum += static_cast<double>(gradient.data[r * outputs + o]) *
               weights.data[i * outputs + o];
      }
      EXPECT_NEAR(dx.data[r * inputs + i], sum, Tolerance(outputs));
    }
  }
}

TEST_F(CpuDeviceTest, ReluBackwardLetsThroughWhereTheOutputIsPositive) {
  const DeviceSpan output = Fill(4, 1), gradient = Fill(4, 2);
  const std::vector<float> outputs = {1.0f, 0.0f, -0.0f, 2.0f};
  std::copy(outputs.begin(), outputs.end(), output.data);
  const std::vector<float> before(gradient.data, gradient.data + 4);
  ASSERT_OK(device_->ReluBackward(output, gradient));
  EXPECT_EQ(gradient.data[0], before[0]);
  EXPECT_EQ(gradient.data[1], 0.0f);
  EXPECT_EQ(gradient.data[2], 0.0f);
  EXPECT_EQ(gradient.data[3], before[3]);
}

TEST_F(CpuDeviceTest, SoftmaxCrossEntropyAndItsGradient) {
  constexpr int64_t kRows = 5, kClasses = 7;
  const DeviceSpan logits = Fill(kRows * kClasses, 9);
  for (float& value : logits.host()) value *= 50;  // Far apart: exp must not overflow.
  const std::vector<float> before(logits.data, logits.data + logits.count);
  const std::vector<int32_t> labels = {0, 6, 3, 3, 1};
  ASSERT_OK_AND_ASSIGN(const double loss,
                       device_->SoftmaxCrossEntropy(kRows, kClasses, labels, logits));
  double expected = 0;
  for (int64_t r = 0; r < kRows; ++r) {
    double sum = 0;
    for (int64_t c = 0; c < kClasses; ++c) sum += std::exp(before[r * kClasses + c]);
    expected += std::log(sum) - before[r * kClasses + labels[r]];
    for (int64_t c = 0; c < kClasses; ++c) {
      const double p = std::exp(before[r * kClasses + c]) / sum;
      EXPECT_NEAR(logits.data[r * kClasses + c], (p - (c == labels[r])) / kRows, 1e-5);
    }
  }
  EXPECT_NEAR(loss, expected / kRows, 1e-4);
}

TEST_F(CpuDeviceTest, TheSameCallsGiveTheSameBits) {
  const auto [rows, inputs, outputs] = kShape;
  const DeviceSpan input = Fill(rows * inputs, 1), weights = Fill(inputs * outputs, 2),
                   bias = Fill(outputs, 3), a = Fill(rows * outputs, 4),
                   b = Fill(rows * outputs, 5);
  ASSERT_OK(device_->LinearForward(kShape, input, weights, bias, true, a));
  ASSERT_OK(MakeCpuDevice()->LinearForward(kShape, input, weights, bias, true, b));
  for (int64_t i = 0; i < a.count; ++i) EXPECT_EQ(a.data[i], b.data[i]);
}

}  // namespace
}  // namespace psring
