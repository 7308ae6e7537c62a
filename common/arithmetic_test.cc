#include "common/arithmetic.h"

#include <bit>
#include <cmath>
#include <cstdint>
#include <limits>
#include <optional>
#include <span>
#include <utility>
#include <vector>

#include "common/digest.h"
#include "gtest/gtest.h"

namespace psring {
namespace {

// Awkward values: many exponents, both signs.
std::vector<float> Values(int count, uint32_t seed) {
  std::vector<float> values(count);
  for (float& value : values) {
    seed = seed * 1664525u + 1013904223u;
    value = std::ldexp(static_cast<float>(static_cast<int32_t>(seed)) * 0x1p-31f,
                       static_cast<int>(seed >> 27) - 16);
  }
  return values;
}

TEST(ArithmeticTest, EveryLengthAndAlignmentGivesTheBitsOfThePlainLoop) {
  for (int count = 0; count < 70; ++count) {
    for (int offset = 0; offset < 4; ++offset) {
      std::vector<float> sum = Values(count + offset, 1);
      const std::vector<float> addend = Values(count + offset, 2);
      std::vector<float> expected = sum;
      for (int i = offset; i < count + offset; ++i) {
        volatile float result = expected[i] + addend[i];  // Keeps the loop plain.
        expected[i] = result * 0.25f;
      }
      AddInPlace(std::span(sum).subspan(offset), std::span(addend).subspan(offset));
      ScaleInPlace(std::span(sum).subspan(offset), 0.25f);
      for (int i = 0; i < count + offset; ++i) {
        EXPECT_EQ(std::bit_cast<uint32_t>(sum[i]), std::bit_cast<uint32_t>(expected[i]));
      }
    }
  }
}

TEST(FirstNonFiniteTest, FindsEachKindAtEveryPlaceAndNothingElse) {
  constexpr int kCount = 9000;  // Some blocks, and a part of one.
  std::vector<float> values = Values(kCount, 5);
  values[1] = std::numeric_limits<float>::max();
  values[2] = std::numeric_limits<float>::lowest();
  values[3] = std::numeric_limits<float>::denorm_min();
  values[4] = -0.0f;
  EXPECT_EQ(FirstNonFinite(values), std::nullopt);
  EXPECT_EQ(FirstNonFinite({}), std::nullopt);
  const float infinity = std::numeric_limits<float>::infinity();
  const float nan = std::numeric_limits<float>::quiet_NaN();
  for (const float bad : {infinity, -infinity, nan, -nan}) {
    for (const int at : {0, 1, 15, 16, 17, 4095, 4096, 8191, 8192, kCount - 1}) {
      const float before = std::exchange(values[at], bad);
      EXPECT_EQ(FirstNonFinite(values), at);
      EXPECT_EQ(FirstNonFinite(std::span(values).subspan(at)), 0);
      EXPECT_EQ(FirstNonFinite(std::span(values).first(at)), std::nullopt);
      values[at] = before;
    }
  }
  values[4100] = nan;
  values[4099] = infinity;
  EXPECT_EQ(FirstNonFinite(values), 4099) << "not the first";
}

TEST(FirstBeyondTest, FindsWhatIsAboveTheLargestEitherWay) {
  std::vector<float> values(5000, 2.0f);
  values[4321] = -2.0f;
  EXPECT_EQ(FirstBeyond(values, 2), std::nullopt);
  for (const float bad : {std::nextafter(2.0f, 3.0f), -std::nextafter(2.0f, 3.0f),
                          std::numeric_limits<float>::infinity(),
                          std::numeric_limits<float>::quiet_NaN()}) {
    values[4321] = bad;
    EXPECT_EQ(FirstBeyond(values, 2), 4321);
  }
}

TEST(CompensateDelayTest, AddsLambdaTimesTheSquareTimesTheDistance) {
  std::vector<float> gradient = {2, -4, 3};
  CompensateDelay(gradient, 0.5f, std::vector<float>{1, 1, 7},
                  std::vector<float>{-1, 3, 7});
  EXPECT_EQ(gradient, (std::vector<float>{2 + 0.5f * 4 * 2, -4 + 0.5f * 16 * -2, 3}));
}

TEST(DigestTest, PartsAddUpToTheWhole) {
  const std::vector<float> values = Values(1000, 3);
  const std::span<const float> all = values;
  for (const int cut : {0, 1, 15, 16, 500, 1000}) {
    EXPECT_EQ(Digest(all.first(cut)) + Digest(all.subspan(cut), cut), Digest(all));
  }
}

TEST(DigestTest, SeesAFlippedBitAnExchangeAndTheSignOfZero) {
  std::vector<float> values = Values(100, 4);
  const uint64_t before = Digest(values);
  for (int bit = 0; bit < 32; ++bit) {
    std::vector<float> changed = values;
    changed[50] =
        std::bit_cast<float>(std::bit_cast<uint32_t>(changed[50]) ^ (1u << bit));
    EXPECT_NE(Digest(changed), before) << "bit " << bit;
  }
  std::vector<float> exchanged = values;
  std::swap(exchanged[3], exchanged[4]);
  EXPECT_NE(Digest(exchanged), before);
  values[7] = 0.0f;
  const uint64_t positive = Digest(values);
  values[7] = -0.0f;
  EXPECT_NE(Digest(values), positive);
}

// Digests are compared between processes and kept in files: the function must not move.
TEST(DigestTest, IsTheSameOnEveryMachine) {
  const std::vector<float> values = {1.0f, -2.5f, 0.0f};
  uint64_t expected = 0;
  for (uint64_t i = 0; i < 3; ++i) {
    uint64_t x = std::bit_cast<uint32_t>(values[i]) + (i + 1) * 0x9e3779b97f4a7c15u;
    x = (x ^ (x >> 30)) * 0xbf58476d1ce4e5b9u;
    x = (x ^ (x >> 27)) * 0x94d049bb133111ebu;
    expected += x ^ (x >> 31);
  }
  EXPECT_EQ(Digest(values), expected);
}

}  // namespace
}  // namespace psring
