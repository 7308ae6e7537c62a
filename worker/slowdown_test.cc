#include "worker/slowdown.h"

#include "gtest/gtest.h"

namespace psring {
namespace {

class FakeTime final : public TimeSource {
 public:
  absl::Duration Elapsed() const override { return now; }
  absl::Duration now = absl::Seconds(100);
};

TEST(SlowdownTest, WaitsUntilComputingHasTakenFactorTimesAsLong) {
  FakeTime time;
  Slowdown slowdown(3, time, [&](absl::Duration missing) { time.now += missing; });
  slowdown.Start();
  time.now += absl::Seconds(2);
  slowdown.Stretch();
  EXPECT_EQ(time.now, absl::Seconds(106));
  time.now += absl::Seconds(1);
  slowdown.Stretch();
  EXPECT_EQ(time.now, absl::Seconds(109));
  slowdown.Stretch();
  EXPECT_EQ(time.now, absl::Seconds(109)) << "nothing was computed in between";
}

TEST(SlowdownTest, AWaitThatTookTooLongCountsAgainstTheNext) {
  FakeTime time;
  Slowdown slowdown(
      2, time, [&](absl::Duration missing) { time.now += missing + absl::Seconds(1); });
  slowdown.Start();
  time.now += absl::Seconds(2);
  slowdown.Stretch();  // To 104, and a second too long.
  time.now += absl::Seconds(3);
  slowdown.Stretch();  // 5 s of computing: to 110, and a second too long.
  EXPECT_EQ(time.now, absl::Seconds(111));
}

TEST(SlowdownTest, FactorOneNeverWaits) {
  FakeTime time;
  Slowdown slowdown(1, time, [](absl::Duration) { FAIL(); });
  slowdown.Start();
  time.now += absl::Seconds(2);
  slowdown.Stretch();
}

}  // namespace
}  // namespace psring
