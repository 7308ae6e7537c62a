#include "server/incarnation_fence.h"

#include "gtest/gtest.h"

namespace psring {
namespace {

TEST(IncarnationFenceTest, WhoeverWasReplacedStaysOut) {
  IncarnationFence fence(2);
  EXPECT_EQ(fence.current(0), std::nullopt);
  EXPECT_TRUE(fence.Admit(0, 7));
  EXPECT_TRUE(fence.Admit(0, 7)) << "the same process";
  EXPECT_TRUE(fence.Admit(0, 8));
  EXPECT_FALSE(fence.Admit(0, 7));
  EXPECT_TRUE(fence.Admit(0, 9));
  EXPECT_FALSE(fence.Admit(0, 7));
  EXPECT_FALSE(fence.Admit(0, 8));
  EXPECT_EQ(fence.current(0), 9);
}

TEST(IncarnationFenceTest, RanksDoNotConcernEachOther) {
  IncarnationFence fence(2);
  EXPECT_TRUE(fence.Admit(0, 7));
  EXPECT_TRUE(fence.Admit(0, 8));
  EXPECT_TRUE(fence.Admit(1, 7));
  EXPECT_EQ(fence.current(0), 8);
  EXPECT_EQ(fence.current(1), 7);
}

TEST(IncarnationFenceTest, RemembersTheLastOnes) {
  IncarnationFence fence(1);
  constexpr uint64_t kLast = IncarnationFence::kMostReplaced + 1;
  for (uint64_t incarnation = 0; incarnation <= kLast; ++incarnation) {
    EXPECT_TRUE(fence.Admit(0, incarnation));
  }
  for (uint64_t incarnation = 1; incarnation < kLast; ++incarnation) {
    EXPECT_FALSE(fence.Admit(0, incarnation)) << incarnation;
  }
  EXPECT_TRUE(fence.Admit(0, 0)) << "it is forgotten, or memory would grow for ever";
}

}  // namespace
}  // namespace psring
