#include "common/clock_offset.h"

#include <vector>

#include "gtest/gtest.h"

namespace psring {
namespace {

constexpr absl::Duration kUs = absl::Microseconds(1);

TEST(ClockOffsetTest, IsTheDistanceFromTheMiddle) {
  const ClockOffset offset = EstimateOffset(std::vector<ClockPing>{
      {.asked = 10 * kUs, .other = 115 * kUs, .answered = 20 * kUs}});
  EXPECT_EQ(offset.offset, 100 * kUs);
  EXPECT_EQ(offset.error, 5 * kUs);
  EXPECT_EQ(offset.time, 15 * kUs);
}

TEST(ClockOffsetTest, TheOtherClockMayBeBehind) {
  const ClockOffset offset = EstimateOffset(std::vector<ClockPing>{
      {.asked = 10 * kUs, .other = 3 * kUs, .answered = 12 * kUs}});
  EXPECT_EQ(offset.offset, -8 * kUs);
  EXPECT_EQ(offset.error, kUs);
}

TEST(ClockOffsetTest, TheQuickestPingCounts) {
  const std::vector<ClockPing> pings = {
      {.asked = 0 * kUs, .other = 190 * kUs, .answered = 100 * kUs},
      {.asked = 200 * kUs, .other = 302 * kUs, .answered = 204 * kUs},
      {.asked = 300 * kUs, .other = 401 * kUs, .answered = 340 * kUs}};
  const ClockOffset offset = EstimateOffset(pings);
  EXPECT_EQ(offset.offset, 100 * kUs);
  EXPECT_EQ(offset.error, 2 * kUs);
}

// The way there and the way back take anything from 0 to 10 us; the truth is 77 us.
TEST(ClockOffsetTest, TheTruthIsWithinTheError) {
  for (int there = 0; there <= 10; ++there) {
    for (int back = 0; back <= 10; ++back) {
      const absl::Duration asked = 50 * kUs;
      const ClockOffset offset = EstimateOffset(
          std::vector<ClockPing>{{.asked = asked,
                                  .other = asked + there * kUs + 77 * kUs,
                                  .answered = asked + (there + back) * kUs}});
      EXPECT_LE(absl::AbsDuration(offset.offset - 77 * kUs), offset.error)
          << there << " us there, " << back << " us back";
    }
  }
}

}  // namespace
}  // namespace psring
