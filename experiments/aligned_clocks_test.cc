#include "experiments/aligned_clocks.h"

#include "gtest/gtest.h"

namespace psring {
namespace {

ClockRecord Compared(int64_t time_ns, int64_t offset_ns, int64_t error_ns = 0) {
  ClockRecord record;
  record.set_time_ns(time_ns);
  record.set_offset_ns(offset_ns);
  record.set_error_ns(error_ns);
  return record;
}

constexpr int64_t kHour = 3'600'000'000'000;

// Worker 1 began 250 ns before worker 0, so that its clock shows more.
TEST(AlignedClocksTest, OneMomentOnTwoClocks) {
  AlignedClocks clocks;
  clocks.Add(0, Compared(10, kHour));
  clocks.Add(1, Compared(10, kHour - 250));
  EXPECT_EQ(clocks.Translate(1, 1250, 0), 1000);
  EXPECT_EQ(clocks.Translate(0, 1000, 1), 1250);
  EXPECT_EQ(clocks.Translate(0, 1000, 0), 1000);
}

// Worker 1's clock loses a nanosecond in a hundred.
TEST(AlignedClocksTest, ADriftIsSpreadEvenly) {
  AlignedClocks clocks;
  clocks.Add(0, Compared(0, 0));
  clocks.Add(1, Compared(0, 0));
  clocks.Add(1, Compared(9900, 100));
  EXPECT_EQ(clocks.Translate(1, 0, 0), 0);
  EXPECT_EQ(clocks.Translate(1, 4950, 0), 5000);
  EXPECT_EQ(clocks.Translate(1, 9900, 0), 10000);
  EXPECT_NEAR(static_cast<double>(clocks.Translate(0, 5000, 1)), 4950, 1);
  // Beyond what was compared, nothing is made up.
  EXPECT_EQ(clocks.Translate(1, 20000, 0), 20100);
}

TEST(AlignedClocksTest, OneThatWasNeverComparedIsTakenForTheCoordinators) {
  AlignedClocks clocks;
  clocks.Add(1, Compared(0, 70));
  EXPECT_EQ(clocks.Translate(1, 30, 0), 100);
  EXPECT_EQ(clocks.Translate(2, 30, 0), 30);
}

TEST(AlignedClocksTest, TheErrorIsThatOfTheTwoWorst) {
  AlignedClocks clocks;
  EXPECT_EQ(clocks.error_ns(), 0);
  clocks.Add(0, Compared(0, 0, 5));
  EXPECT_EQ(clocks.error_ns(), 5);
  clocks.Add(1, Compared(0, 0, 1));
  clocks.Add(1, Compared(9, 0, 7));
  clocks.Add(2, Compared(0, 0, 3));
  EXPECT_EQ(clocks.error_ns(), 12);
}

}  // namespace
}  // namespace psring
