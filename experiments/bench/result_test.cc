#include "experiments/bench/result.h"

#include <numeric>

#include "gmock/gmock.h"
#include "gtest/gtest.h"

namespace psring {
namespace {

using testing::Eq;
using testing::Optional;

const Contestant kRing{.peer = "psring", .algorithm = "ring", .transport = "tcp"};
const Contestant kTree{.peer = "psring", .algorithm = "tree", .transport = "tcp"};
const Contestant kShared{
    .peer = "psring", .algorithm = "ring", .transport = "shared_memory"};
const Contestant kGloo{.peer = "gloo", .algorithm = "ring", .transport = "tcp"};
const Contestant kMpi{
    .peer = "openmpi", .algorithm = "default", .transport = "shared_memory"};

TEST(BenchResultTest, MedianAndPercentileAreMeasuredValues) {
  EXPECT_EQ(Median({3}), 3);
  EXPECT_EQ(Median({4, 1, 3, 2}), 2);
  EXPECT_EQ(Median({5, 1, 4}), 4);
  std::vector<int64_t> values(200);
  std::iota(values.rbegin(), values.rend(), 1);
  EXPECT_EQ(Percentile(values, 99), 198);
  EXPECT_EQ(Percentile(values, 100), 200);
  EXPECT_EQ(Percentile({7, 9}, 99), 9);
}

TEST(BenchResultTest, ReferenceIsPsringsFirstOverTheSameTransport) {
  const std::vector<Contestant> contestants = {kRing, kTree, kGloo, kMpi};
  EXPECT_THAT(ReferenceOf(contestants, 0), Optional(0));
  EXPECT_THAT(ReferenceOf(contestants, 1), Optional(0));
  EXPECT_THAT(ReferenceOf(contestants, 2), Optional(0));
  EXPECT_THAT(ReferenceOf(contestants, 3), Eq(std::nullopt));
  EXPECT_THAT(ReferenceOf({kRing, kShared, kMpi}, 2), Optional(1));
}

TEST(BenchResultTest, RowsHaveTheColumnsAsDefined) {
  const std::vector<std::vector<BenchRound>> rounds = {
      {{.times_ns = {4'000, 1'000, 3'000}, .wrong = 0},
       {.times_ns = {2'000, 5'000}, .wrong = 0}},
      {{.times_ns = {6'000, 6'000, 6'000}, .wrong = 2},
       {.times_ns = {8'000, 8'000, 8'000}, .wrong = 3}}};
  const std::vector<BenchRow> rows = MakeRows(6'000, 4, {kRing, kGloo}, rounds);
  ASSERT_EQ(rows.size(), 2);
  EXPECT_EQ(rows[0].size_bytes, 6'000);
  EXPECT_DOUBLE_EQ(rows[0].min_us, 1);
  EXPECT_DOUBLE_EQ(rows[0].median_us, 3);
  EXPECT_DOUBLE_EQ(rows[0].p99_us, 5);
  EXPECT_DOUBLE_EQ(rows[0].algbw, 2);
  EXPECT_DOUBLE_EQ(rows[0].busbw, 3);
  EXPECT_THAT(rows[0].wrong, Optional(0));
  EXPECT_THAT(rows[0].ratio, Eq(std::nullopt));
  EXPECT_EQ(rows[1].contestant.peer, "gloo");
  EXPECT_THAT(rows[1].wrong, Optional(5));
  // 6/3 in one round, 8/2 in the other.
  EXPECT_THAT(rows[1].ratio, Optional(testing::DoubleEq(3)));
}

TEST(BenchResultTest, TheRatioIsOfRoundsSoThatADriftOfTheMachineCancels) {
  std::vector<std::vector<BenchRound>> rounds(2);
  for (const int64_t speed : {100, 1'000, 300}) {
    rounds[0].push_back({.times_ns = {10 * speed}, .wrong = {}});
    rounds[1].push_back({.times_ns = {15 * speed}, .wrong = {}});
  }
  const std::vector<BenchRow> rows = MakeRows(4, 2, {kRing, kGloo}, rounds);
  EXPECT_THAT(rows[1].ratio, Optional(testing::DoubleEq(1.5)));
  EXPECT_THAT(rows[1].wrong, Eq(std::nullopt));
}

}  // namespace
}  // namespace psring
