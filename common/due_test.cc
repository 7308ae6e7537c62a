#include "common/due.h"

#include "gtest/gtest.h"

namespace psring {
namespace {

TEST(NextDueTest, ComesEveryIntervalAndAfterTheLastStep) {
  EXPECT_EQ(NextDue(0, /*steps=*/10, /*interval=*/4), 4);
  EXPECT_EQ(NextDue(3, 10, 4), 4);
  EXPECT_EQ(NextDue(4, 10, 4), 8);
  EXPECT_EQ(NextDue(8, 10, 4), 10);
  EXPECT_EQ(NextDue(9, 10, 1), 10);
  EXPECT_EQ(NextDue(0, 3, 5), 3);
}

TEST(NextDueTest, WithoutAnIntervalComesAfterTheLastStepOnly) {
  EXPECT_EQ(NextDue(0, 10, 0), 10);
  EXPECT_EQ(NextDue(9, 10, 0), 10);
}

}  // namespace
}  // namespace psring
