#include "experiments/progress.h"

#include "gtest/gtest.h"

namespace psring {
namespace {

// Half way after 30 s.
constexpr ArmProgress kHalf = {.steps_done = 1500,
                               .samples = 1920000,
                               .loss = 0.12345,
                               .trained = absl::Seconds(30)};
constexpr char kHalfLine[] =
    "ring: step 1,500 of 3,000, loss 0.1235, 64,000 samples/s, 0:30 left";

TEST(ProgressLineTest, SaysHowFarHowFastAndHowLong) {
  EXPECT_EQ(ProgressLine("ring", 3000, kHalf), kHalfLine);
  EXPECT_EQ(ProgressLine("ring", 3000, {}), "ring: starting");
  EXPECT_EQ(
      ProgressLine(
          "a", 10,
          {.steps_done = 1, .samples = 7, .loss = 2, .trained = absl::Seconds(13.9)}),
      "a: step 1 of 10, loss 2.0000, 0 samples/s, 2:05 left");
  EXPECT_EQ(ProgressLine("a", 10, {.steps_done = 10, .samples = 50, .loss = 1}),
            "a: step 10 of 10, loss 1.0000, 0 samples/s, 0:00 left");
  // Of a run that continues from step 4: what is left takes as long as what it made.
  EXPECT_EQ(
      ProgressLine(
          "a", 10,
          {.steps_done = 3, .samples = 0, .trained = absl::Seconds(30), .first_step = 4}),
      "a: step 7 of 10, 0 samples/s, 0:30 left");
  EXPECT_EQ(ProgressLine("a", 10, {.steps_done = 10, .samples = 50}),
            "a: step 10 of 10, 0 samples/s, 0:00 left");
}

}  // namespace
}  // namespace psring
