#include "common/partition.h"

#include <cstdint>

#include "gtest/gtest.h"

namespace psring {
namespace {

TEST(PartitionRangeTest, CoversEverythingOnceInOrderWithSizesThatDifferByOne) {
  for (int64_t count = 0; count <= 40; ++count) {
    for (int64_t parts = 1; parts <= 9; ++parts) {
      int64_t next = 0;
      for (int64_t part = 0; part < parts; ++part) {
        const Range range = PartitionRange(count, parts, part);
        EXPECT_EQ(range.begin, next) << count << " in " << parts;
        EXPECT_GE(range.count, count / parts);
        EXPECT_LE(range.count, (count + parts - 1) / parts);
        if (part > 0) {
          EXPECT_LE(range.count, PartitionRange(count, parts, part - 1).count);
        }
        next = range.end();
      }
      EXPECT_EQ(next, count);
    }
  }
}

TEST(PartitionRangeTest, IsExactFarPast32Bits) {
  constexpr int64_t kCount = (int64_t{1} << 62) - 1;
  EXPECT_EQ(PartitionRange(kCount, 7, 6).end(), kCount);
  EXPECT_EQ(PartitionRange(kCount, 7, 3).begin, PartitionRange(kCount, 7, 2).end());
}

}  // namespace
}  // namespace psring
