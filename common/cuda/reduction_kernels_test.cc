// Kernels in which threads work together: equal bits where the order of additions is
// known or does not matter, else within a bound that has its derivation beside it.
#include "common/cuda/reduction_kernels.h"

#include <algorithm>
#include <bit>
#include <cmath>
#include <cstdint>
#include <limits>
#include <numeric>
#include <optional>
#include <span>
#include <vector>

#include "common/arithmetic.h"
#include "common/cuda/emulator_test_util.h"
#include "common/digest.h"
#include "common/status_matchers.h"
#include "gtest/gtest.h"

namespace psring {
namespace {

constexpr double kUnit = 0x1p-24;  // Half of a float's last place, relative.
constexpr float kNan = std::numeric_limits<float>::quiet_NaN();

struct Size {
  int64_t rows, columns;
};

// By the order that the header promises.
float ColumnSum(const std::vector<float>& values, const Size& size, int64_t column) {
  std::vector<float> groups;
  for (int64_t row = 0; row < size.rows; ++row) {
    const float value = values[row * size.columns + column];
    const int64_t group = row % 16;
    if (group == static_cast<int64_t>(groups.size())) {
      groups.push_back(value);
    } else {
      groups[group] += value;
    }
  }
  if (groups.empty()) return 0;
  return std::accumulate(groups.begin() + 1, groups.end(), groups[0]);
}

TEST(SumColumnsTest, AddsInTheOrderThatItPromises) {
  for (const Size& size :
       {Size{0, 3}, Size{1, 1}, Size{2, 33}, Size{15, 10}, Size{16, 32}, Size{17, 31},
        Size{100, 10}, Size{1000, 5}, Size{40, 200}}) {
    std::vector<float> values = ValuesOf(size.rows * size.columns, 1);
    for (size_t i = 0; i < values.size(); i += 7) values[i] = -0.0f;
    std::vector<float> expected;
    for (int64_t c = 0; c < size.columns; ++c) {
      expected.push_back(ColumnSum(values, size, c));
      double exact = 0;
      for (int64_t r = 0; r < size.rows; ++r) exact += values[r * size.columns + c];
      // Each of rows - 1 additions is off by a unit of at most the sum of magnitudes.
      EXPECT_NEAR(expected.back(), exact,
                  kUnit * static_cast<double>(size.rows * size.rows));
    }
    InEveryWay([&](int64_t offset, ThreadOrder order, int64_t blocks) {
      PlacedValues<float> placed(values, offset);
      PlacedValues<float> sums(std::vector<float>(size.columns, kNan), offset);
      ASSERT_OK(
          EmulateWith(CallSumColumns(size.rows, size.columns, placed.data(), sums.data()),
                      order, blocks));
      EXPECT_EQ(BitsOf(sums.values()), BitsOf(expected))
          << size.rows << " x " << size.columns;
    });
  }
}

struct Softmax {
  std::vector<float> gradients;
  std::vector<float> losses;
  uint64_t correct = 100;
};

std::vector<int32_t> LabelsOf(const Size& size) {
  std::vector<int32_t> labels;
  for (int64_t row = 0; row < size.rows; ++row) {
    labels.push_back(static_cast<int32_t>(row * row * 5 % size.columns));
  }
  return labels;
}

// For any offset, order and number of blocks the same bits.
std::optional<Softmax> RunSoftmax(const Size& size, const std::vector<float>& logits,
                                  const std::vector<int32_t>& labels) {
  std::optional<Softmax> first;
  InEveryWay([&](int64_t offset, ThreadOrder order, int64_t blocks) {
    PlacedValues<float> placed(logits, offset);
    Softmax result;
    result.losses.assign(size.rows, kNan);
    ASSERT_OK(EmulateWith(
        CallSoftmaxCrossEntropy(size.rows, size.columns, labels.data(), placed.data(),
                                result.losses.data(), &result.correct),
        order, blocks));
    result.gradients = placed.values();
    if (!first) first = result;
    EXPECT_EQ(BitsOf(result.gradients), BitsOf(first->gradients));
    EXPECT_EQ(BitsOf(result.losses), BitsOf(first->losses));
    EXPECT_EQ(result.correct, first->correct);
  });
  return first;
}

TEST(SoftmaxCrossEntropyTest, IsWithinItsRoundingErrorsOfADoublePrecisionReference) {
  for (const Size& size :
       {Size{1, 1}, Size{5, 10}, Size{9, 31}, Size{70, 33}, Size{3, 1000}}) {
    std::vector<float> logits = ValuesOf(size.rows * size.columns, 9);
    for (float& logit : logits) logit *= 50;  // Far apart: exp must not overflow.
    const std::vector<int32_t> labels = LabelsOf(size);
    const std::optional<Softmax> result = RunSoftmax(size, logits, labels);
    ASSERT_TRUE(result);
    uint64_t correct = 100;
    const double scale = 1.0 / static_cast<double>(size.rows);
    for (int64_t row = 0; row < size.rows; ++row) {
      const auto values = std::span(logits).subspan(row * size.columns, size.columns);
      const auto top = std::max_element(values.begin(), values.end());
      correct += top - values.begin() == labels[row];
      double sum = 0, widest = 0;
      for (const float value : values) {
        sum += std::exp(double{value} - *top);
        widest = std::max(widest, double{*top} - value);
      }
      const double log_sum = std::log(sum);
      // Each difference from the largest is off by a unit of it, an exponential by two
      // units of its own besides, and each addition of positive terms by one; so is the
      // sum, relatively, and its logarithm absolutely, which has two units of its own.
      const double log_sum_error =
          kUnit * (widest + 2 + static_cast<double>(size.columns) + 2 * log_sum);
      // Two differences.
      const double log_error = log_sum_error + kUnit * (2 * widest + log_sum);
      EXPECT_NEAR(result->losses[row], log_sum - (double{values[labels[row]]} - *top),
                  1.01 * log_error);
      for (int64_t c = 0; c < size.columns; ++c) {
        const double p = std::exp(double{values[c]} - *top - log_sum);
        // The exponential again, the scale, the product, and the difference.
        EXPECT_NEAR(result->gradients[row * size.columns + c],
                    (p - (c == labels[row])) * scale,
                    1.01 * scale * (p * (log_error + 4 * kUnit) + 2 * kUnit))
            << "row " << row << ", class " << c << " of " << size.columns;
      }
    }
    EXPECT_EQ(result->correct, correct);
  }
}

TEST(SoftmaxCrossEntropyTest, OfEqualLogitsTheFirstIsTheLargest) {
  constexpr Size kSize = {4, 40};
  std::vector<float> logits(kSize.rows * kSize.columns);
  logits[40 + 38] = logits[40 + 7] = 3;
  logits[80 + 39] = logits[80 + 38] = 3;
  std::fill(logits.begin() + 120, logits.end(), -std::numeric_limits<float>::max());
  const std::optional<Softmax> hits = RunSoftmax(kSize, logits, {0, 7, 38, 0});
  ASSERT_TRUE(hits);
  EXPECT_EQ(hits->correct, 104u);
  const std::optional<Softmax> misses = RunSoftmax(kSize, logits, {1, 38, 39, 32});
  ASSERT_TRUE(misses);
  EXPECT_EQ(misses->correct, 100u);
}

TEST(SoftmaxCrossEntropyTest, WhatIsNotANumberShowsInItsRowAlone) {
  constexpr Size kSize = {3, 37};
  for (const float bad : {kNan, std::numeric_limits<float>::infinity()}) {
    std::vector<float> logits = ValuesOf(kSize.rows * kSize.columns, 4);
    logits[kSize.columns + 35] = bad;
    const std::optional<Softmax> result = RunSoftmax(kSize, logits, {1, 2, 3});
    ASSERT_TRUE(result);
    EXPECT_TRUE(std::isfinite(result->losses[0]));
    EXPECT_FALSE(std::isfinite(result->losses[1]));
    EXPECT_TRUE(std::isfinite(result->losses[2]));
  }
}

TEST(MeanTest, IsTheSameInEveryWayAndThatOfDoubles) {
  for (const int64_t count : kEmulatedCounts) {
    const std::vector<float> values = ValuesOf(count, 5);
    const double exact = std::accumulate(values.begin(), values.end(), 0.0);
    std::optional<double> first;
    InEveryWay([&](int64_t offset, ThreadOrder order, int64_t) {
      PlacedValues<float> placed(values, offset);
      double mean = 77;
      ASSERT_OK(Emulate(CallMean(count, placed.data(), &mean), order));
      if (!first) first = mean;
      EXPECT_EQ(mean, *first);
      if (count == 0) {
        EXPECT_EQ(mean, 77);  // Nothing is done.
        return;
      }
      // Both sums: each addition a unit of a double of at most the sum of magnitudes.
      const auto n = static_cast<double>(count);
      EXPECT_NEAR(mean, exact / n, 2 * n * 0x1p-53);
    });
  }
}

TEST(DigestKernelTest, IsTheProcessorsDigest) {
  for (const int64_t count : kEmulatedCounts) {
    std::vector<float> values = ValuesOf(count, 6);
    if (count > 3) values[1] = kNan, values[2] = -0.0f;
    InEveryWay([&](int64_t offset, ThreadOrder order, int64_t blocks) {
      PlacedValues<float> placed(values, offset);
      for (const int64_t first_index : {int64_t{0}, int64_t{1} << 33}) {
        uint64_t sum = 12345;
        ASSERT_OK(EmulateWith(CallDigest(count, placed.data(), first_index, &sum), order,
                              blocks));
        EXPECT_EQ(sum - 12345, Digest(values, first_index)) << count;
      }
    });
  }
}

TEST(FindBeyondTest, IsTheProcessorsFirstBeyond) {
  constexpr float kLargest = 0.5f;
  for (const int64_t count : kEmulatedCounts) {
    std::vector<float> within = ValuesOf(count, 7);
    for (float& value : within) value *= kLargest;
    if (count > 0) within[0] = -kLargest;  // Not above it.
    // Nothing, one at either end, several, and what is no number.
    std::vector<std::vector<float>> all(5, within);
    if (count > 0) {
      all[1].back() = -0.6f;
      all[2].front() = kNan;
      for (int64_t i = count / 3; i < count; i += 2) all[3][i] = 0.75f;
      all[4][count / 2] = std::numeric_limits<float>::infinity();
    }
    for (const std::vector<float>& values : all) {
      const std::optional<int64_t> expected = FirstBeyond(values, kLargest);
      InEveryWay([&](int64_t offset, ThreadOrder order, int64_t blocks) {
        PlacedValues<float> placed(values, offset);
        uint64_t found = kNothingFound;
        ASSERT_OK(EmulateWith(CallFindBeyond(count, placed.data(), kLargest, &found),
                              order, blocks));
        EXPECT_EQ(found, expected ? static_cast<uint64_t>(*expected) : kNothingFound);
      });
    }
  }
}

TEST(FindBeyondTest, KeepsWhatAnEarlierPartHasFound) {
  const std::vector<float> values = {1.0f, kNan};
  uint64_t found = 0;
  ASSERT_OK(Emulate(CallFindBeyond(2, values.data(), 2.0f, &found)));
  EXPECT_EQ(found, 0u);
}

}  // namespace
}  // namespace psring
