#include "ring/yields.h"

#include <time.h>

#include "gtest/gtest.h"

namespace psring {
namespace {

// As long as a stranger that keeps the processor.
void BeLate() {
  const timespec pause = {.tv_sec = 0, .tv_nsec = 1'000'000};
  nanosleep(&pause, nullptr);
}

TEST(YieldsTest, LooksAFewTimesAndStopsOnceItIsDone) {
  Yields yields;
  int looks = 0;
  EXPECT_TRUE(yields.Until([&] { return ++looks == 2; }));
  EXPECT_EQ(looks, 2);
}

TEST(YieldsTest, WhoWasLateOnceSleepsForLong) {
  Yields yields;
  EXPECT_TRUE(yields.Until([] {
    BeLate();
    return true;
  }));
  int looks = 0;
  for (int i = 0; i < 100; ++i) {
    EXPECT_FALSE(yields.Until([&] { return ++looks > 0; }));
  }
  EXPECT_EQ(looks, 0);
}

}  // namespace
}  // namespace psring
