#include "experiments/bench/apply/result.h"

#include <vector>

#include "experiments/bench/apply/plan.h"
#include "experiments/bench/apply/received.h"
#include "gtest/gtest.h"

namespace psring {
namespace {

// 1,000 elements and 32 bytes each; the triad moves 8 bytes more.
constexpr double kMoved = 32'000;
constexpr double kTriadMoved = 32'004;

ApplyCase Momentum() {
  return {.count = 1000,
          .contributions = 4,
          .optimizer = "momentum",
          .pieces = PieceKind::kWhole,
          .buckets = 3};
}

TEST(ApplyResultTest, ColumnsByHand) {
  const std::vector<ApplyRound> rounds = {
      {.update_ns = {4000, 5000, 6000}, .triad_ns = {4000, 4000, 9000}},
      {.update_ns = {8000, 8000, 9000}, .triad_ns = {4000, 4000, 4000}},
      {.update_ns = {5000, 5000, 90'000}, .triad_ns = {4500, 4500, 4500}}};
  const ApplyRow row = MakeApplyRow(Momentum(), rounds, 7);
  EXPECT_EQ(row.row.buckets, 3);
  EXPECT_EQ(row.min_us, 4);
  EXPECT_EQ(row.median_us, 6);  // The fifth of nine.
  EXPECT_EQ(row.p99_us, 90);
  EXPECT_DOUBLE_EQ(row.speed, kMoved / 6000);
  EXPECT_DOUBLE_EQ(row.triad_speed, kTriadMoved / 4000);
  // By round: 4/5, 4/8 and 4.5/5 of the triad's time, for a little fewer bytes.
  EXPECT_DOUBLE_EQ(row.ratio, 0.8 * kMoved / kTriadMoved);
  EXPECT_EQ(row.wrong, 7);
}

TEST(ApplyResultTest, AsFastAsTheTriadIsOne) {
  ApplyCase row = Momentum();
  row.count = 3;  // 96 bytes, 8 of the triad's elements.
  const ApplyRow made = MakeApplyRow(row, {{.update_ns = {50}, .triad_ns = {50}}}, 0);
  EXPECT_DOUBLE_EQ(made.ratio, 1);
  EXPECT_DOUBLE_EQ(made.speed, made.triad_speed);
}

}  // namespace
}  // namespace psring
