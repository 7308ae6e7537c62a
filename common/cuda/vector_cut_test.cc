#include "common/cuda/vector_cut.h"

#include <cstdint>
#include <vector>

#include "gtest/gtest.h"

namespace psring {
namespace {

TEST(VectorCutTest, EveryElementOnceAndFoursAligned) {
  for (int64_t count = 0; count < 40; ++count) {
    for (int64_t position = 0; position < 8; ++position) {
      const VectorCut cut = CutAt(count, {position, position + 4});
      std::vector<int> visits(count);
      for (int64_t n = 0; n < cut.fours; ++n) {
        EXPECT_EQ((position + cut.FourAt(n)) % kFour, 0);
        for (int64_t k = 0; k < kFour; ++k) ++visits.at(cut.FourAt(n) + k);
      }
      for (int64_t n = 0; n < cut.singles(); ++n) ++visits.at(cut.SingleAt(n));
      EXPECT_EQ(visits, std::vector<int>(count, 1)) << count << " at " << position;
      EXPECT_LE(cut.singles(), 6) << count << " at " << position;
    }
  }
}

TEST(VectorCutTest, ArraysThatAreNotAlignedAlikeGoSingly) {
  const VectorCut cut = CutAt(40, {0, 4, 3});
  EXPECT_EQ(cut.fours, 0);
  EXPECT_EQ(cut.singles(), 40);
}

TEST(VectorCutTest, AlignmentIsThatOfTheElementsOwnFours) {
  alignas(16) const float floats[16] = {};
  alignas(8) const uint16_t halves[16] = {};
  EXPECT_EQ(CutOf(12, floats, halves).fours, 3);
  EXPECT_EQ(CutOf(12, floats + 1, halves + 1).head, 3);
  EXPECT_EQ(CutOf(12, floats + 1, halves + 1).fours, 2);
  EXPECT_EQ(CutOf(12, floats + 1, halves + 2).fours, 0);
}

TEST(VectorCutTest, BlocksAreEnoughButNotTooMany) {
  EXPECT_EQ(BlocksFor(CutAt(0, {0}), 256), 0);
  EXPECT_EQ(BlocksFor(CutAt(1, {0}), 256), 1);
  EXPECT_EQ(BlocksFor(CutAt(4 * 256, {0}), 256), 1);
  EXPECT_EQ(BlocksFor(CutAt(4 * 257, {0}), 256), 2);
  EXPECT_EQ(BlocksFor(CutAt(513, {0, 1}), 256), 3);
  EXPECT_EQ(BlocksFor(CutAt(int64_t{1} << 40, {1}), 256), kMaxBlocks);
}

}  // namespace
}  // namespace psring
