// Against an exact computation that shares nothing with the code: numbers of 16 bits are
// taken apart by their definition, and the nearest one is searched for.
#include "common/sixteen_bits.h"

#include <algorithm>
#include <bit>
#include <cmath>
#include <cstdint>
#include <limits>
#include <random>
#include <string>
#include <vector>

#include "gtest/gtest.h"

namespace psring {
namespace {

constexpr uint16_t kSign = 0x8000;

struct Format {
  SixteenBits type;
  int fraction_bits;
  int bias;

  int largest_exponent() const { return (1 << (15 - fraction_bits)) - 1; }
  uint16_t infinity() const {
    return static_cast<uint16_t>(largest_exponent() << fraction_bits);
  }
  // Of a number that is not above infinity; that one is what would follow the largest.
  double ValueOf(uint16_t magnitude) const {
    const int exponent = magnitude >> fraction_bits;
    const int fraction = magnitude & ((1 << fraction_bits) - 1);
    return exponent == 0 ? std::ldexp(fraction, 1 - bias - fraction_bits)
                         : std::ldexp((1 << fraction_bits) + fraction,
                                      exponent - bias - fraction_bits);
  }
  // Of the two numbers around it the nearer one, and of two as near the even one.
  uint16_t Nearest(float value) const {
    const auto sign = static_cast<uint16_t>(std::signbit(value) ? kSign : 0);
    const double exact = std::fabs(static_cast<double>(value));
    uint16_t below = 0;
    uint16_t above = infinity();
    if (exact >= ValueOf(above)) return sign | above;
    while (above - below > 1) {
      const auto middle = static_cast<uint16_t>((below + above) / 2);
      (ValueOf(middle) <= exact ? below : above) = middle;
    }
    const double down = exact - ValueOf(below);
    const double up = ValueOf(above) - exact;
    const bool to_below = down < up || (down == up && below % 2 == 0);
    return sign | (to_below ? below : above);
  }
};

class SixteenBitsTest : public testing::TestWithParam<Format> {
 protected:
  static SixteenBits type() { return GetParam().type; }

  static float Widened(uint16_t half) {
    float value = 0;
    Widen(type(), {&half, 1}, {&value, 1});
    return value;
  }
  static std::vector<uint16_t> Rounded(const std::vector<float>& values,
                                       float factor = 1) {
    std::vector<uint16_t> rounded(values.size());
    RoundTo(type(), values, factor, rounded);
    return rounded;
  }
  static bool IsNan(uint16_t half) { return (half & 0x7fff) > GetParam().infinity(); }

  static void ExpectNearest(const std::vector<float>& values) {
    const std::vector<uint16_t> rounded = Rounded(values);
    for (size_t i = 0; i < values.size(); ++i) {
      ASSERT_EQ(rounded[i], GetParam().Nearest(values[i]))
          << values[i] << ", bits " << std::bit_cast<uint32_t>(values[i]);
    }
  }
};

TEST_P(SixteenBitsTest, EveryNumberIsWhatItsBitsSayAndComesBack) {
  for (uint32_t bits = 0; bits < 0x10000; ++bits) {
    const auto half = static_cast<uint16_t>(bits);
    const auto magnitude = static_cast<uint16_t>(half & 0x7fff);
    const float value = Widened(half);
    if (IsNan(half)) {
      ASSERT_TRUE(std::isnan(value)) << bits;
      ASSERT_TRUE(IsNan(Rounded({value})[0])) << bits;
      continue;
    }
    ASSERT_EQ(std::signbit(value), (half & kSign) != 0) << bits;
    if (magnitude == GetParam().infinity()) {
      ASSERT_TRUE(std::isinf(value)) << bits;
    } else {
      ASSERT_EQ(std::fabs(value), GetParam().ValueOf(magnitude)) << bits;
    }
    ASSERT_EQ(Rounded({value})[0], half);
  }
}

// Half-way between each two neighbours, and the floats next to that.
TEST_P(SixteenBitsTest, TiesGoToEven) {
  std::vector<float> values;
  for (uint16_t below = 0; below < GetParam().infinity(); ++below) {
    const double tie = (GetParam().ValueOf(below) + GetParam().ValueOf(below + 1)) / 2;
    const auto value = static_cast<float>(tie);
    if (static_cast<double>(value) != tie) continue;  // Of bf16's subnormals.
    for (const float near : {value, std::nextafter(value, 0.0f),
                             std::nextafter(value, std::numeric_limits<float>::max())}) {
      values.push_back(near);
      values.push_back(-near);
    }
  }
  EXPECT_GT(values.size(), 100'000u);
  ExpectNearest(values);
}

TEST_P(SixteenBitsTest, AnyFloatGoesToTheNearest) {
  std::mt19937 random(7);
  std::vector<float> values = {0.0f,
                               -0.0f,
                               std::numeric_limits<float>::max(),
                               std::numeric_limits<float>::lowest(),
                               std::numeric_limits<float>::min(),
                               std::numeric_limits<float>::denorm_min(),
                               std::numeric_limits<float>::infinity(),
                               -std::numeric_limits<float>::infinity()};
  while (values.size() < 500'000) {
    const float any = std::bit_cast<float>(static_cast<uint32_t>(random()));
    if (!std::isnan(any)) values.push_back(any);
    // Most of all floats are far beyond binary16.
    values.push_back(std::ldexp(static_cast<float>(random()) * 0x1p-32f,
                                static_cast<int>(random() % 48) - 30));
  }
  ExpectNearest(values);
}

TEST_P(SixteenBitsTest, WhatIsNoNumberStaysThat) {
  for (const uint32_t bits : {0x7f800001u, 0x7fffffffu, 0xff800001u, 0x7fc00000u}) {
    EXPECT_TRUE(IsNan(Rounded({std::bit_cast<float>(bits)})[0])) << bits;
  }
}

TEST_P(SixteenBitsTest, EveryPlaceInAVectorRoundsAlike) {
  std::mt19937 random(3);
  std::vector<float> values(1000);
  for (float& value : values) {
    value = static_cast<float>(random() % 2000) * 0.37f - 370.0f;
  }
  const std::vector<uint16_t> all = Rounded(values);
  for (size_t count = 0; count < 70; ++count) {
    const std::vector<float> part(values.begin() + 5, values.begin() + 5 + count);
    EXPECT_TRUE(
        std::equal(all.begin() + 5, all.begin() + 5 + count, Rounded(part).begin()));
  }
}

TEST_P(SixteenBitsTest, ASumIsTheNearestToTheSumOfFloats) {
  std::mt19937 random(5);
  std::vector<float> terms(5000);
  for (float& term : terms) {
    term = std::ldexp(static_cast<float>(random() % 4001) - 2000,
                      static_cast<int>(random() % 12) - 14);
  }
  const std::vector<uint16_t> addends = Rounded(terms);
  std::vector<uint16_t> sums(addends.rbegin(), addends.rend());
  const std::vector<uint16_t> before = sums;
  AddRounded(type(), sums, addends);
  for (size_t i = 0; i < sums.size(); ++i) {
    const float sum = Widened(before[i]) + Widened(addends[i]);
    ASSERT_EQ(sums[i], GetParam().Nearest(sum)) << i;
  }
}

TEST_P(SixteenBitsTest, MultipliesBeforeItRounds) {
  const std::vector<float> values = {1.0f, 0.3f, -7.7f};
  const float third = 1.0f / 3;
  const std::vector<uint16_t> rounded = Rounded(values, third);
  for (size_t i = 0; i < values.size(); ++i) {
    EXPECT_EQ(rounded[i], GetParam().Nearest(values[i] * third));
  }
}

TEST_P(SixteenBitsTest, DriftIsTheRelativeChange) {
  std::mt19937 random(11);
  std::vector<float> values(1000);
  for (float& value : values) value = std::ldexp(static_cast<float>(random()), -40);
  values[3] = values[700] = 0;
  std::vector<uint16_t> rounded(values.size());
  const Rounding rounding = RoundTo(type(), values, 0.5f, rounded);
  Drift expected;
  for (size_t i = 0; i < values.size(); ++i) {
    if (values[i] == 0) continue;
    const double exact = values[i] * 0.5;
    const double drift = std::fabs(Widened(rounded[i]) - exact) / exact;
    expected.Add({.max = drift, .sum = drift, .count = 1});
  }
  EXPECT_EQ(rounding.drift.count, expected.count);
  EXPECT_GT(expected.max, 0);
  EXPECT_NEAR(rounding.drift.max, expected.max, 1e-6 * expected.max);
  EXPECT_NEAR(rounding.drift.mean(), expected.mean(), 1e-5 * expected.mean());
  EXPECT_FALSE(rounding.not_finite.has_value());
}

TEST_P(SixteenBitsTest, TheFirstThatWouldNotBeFiniteIsNamed) {
  const float largest = LargestOf(type());
  EXPECT_EQ(largest, GetParam().ValueOf(GetParam().infinity() - 1));
  std::vector<float> values(600, largest);
  std::vector<uint16_t> rounded(values.size());
  EXPECT_FALSE(RoundTo(type(), values, 1, rounded).not_finite.has_value());
  values[555] = -std::numeric_limits<float>::infinity();
  values[321] = largest * 1.004f;
  EXPECT_EQ(RoundTo(type(), values, 1, rounded).not_finite, 321);
  values[300] = std::numeric_limits<float>::quiet_NaN();
  EXPECT_EQ(RoundTo(type(), values, 1, rounded).not_finite, 300);
}

INSTANTIATE_TEST_SUITE_P(Types, SixteenBitsTest,
                         testing::Values(Format{SixteenBits::kBf16, 7, 127},
                                         Format{SixteenBits::kFp16, 10, 15}),
                         [](const auto& info) {
                           return info.param.type == SixteenBits::kBf16 ? "Bf16" : "Fp16";
                         });

}  // namespace
}  // namespace psring
