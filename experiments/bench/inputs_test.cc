#include "experiments/bench/inputs.h"

#include <set>

#include "gmock/gmock.h"
#include "gtest/gtest.h"

namespace psring {
namespace {

TEST(BenchInputsTest, TheSumIsThatOfTheInputsAndExact) {
  for (int ranks = 1; ranks <= kMaxBenchRanks; ++ranks) {
    for (const int64_t index : {0, 1, 59, 60, 61, 1'000'003}) {
      int64_t sum = 0;
      for (int rank = 0; rank < ranks; ++rank) {
        sum += static_cast<int64_t>(BenchInput(rank, 3, index));
      }
      ASSERT_LT(sum, 1 << 24);
      EXPECT_EQ(BenchSum(ranks, 3, index), static_cast<float>(sum)) << ranks;
    }
  }
}

TEST(BenchInputsTest, InputsDifferByRankIndexAndOperation) {
  std::set<float> inputs;
  for (int rank = 0; rank < kMaxBenchRanks; ++rank) {
    inputs.insert(BenchInput(rank, 0, 7));
  }
  EXPECT_EQ(inputs.size(), kMaxBenchRanks);
  EXPECT_NE(BenchInput(2, 0, 7), BenchInput(2, 0, 8));
  EXPECT_NE(BenchInput(2, 0, 7), BenchInput(2, 1, 7));
}

TEST(BenchInputsTest, AWrongSumNamesItsCulprit) {
  const float sum = BenchSum(4, 0, 5);
  EXPECT_EQ(DescribeWrongValue(4, 0, 5, sum - BenchInput(2, 0, 5), sum),
            "element 5: 722 instead of 984: rank 2's value is missing");
  EXPECT_EQ(DescribeWrongValue(4, 0, 5, sum + BenchInput(0, 0, 5), sum),
            "element 5: 1054 instead of 984: rank 0's value was added twice");
  EXPECT_EQ(DescribeWrongValue(4, 0, 5, sum + 0.5f, sum),
            "element 5: 984.5 instead of 984");
}

}  // namespace
}  // namespace psring
