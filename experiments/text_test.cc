#include "experiments/text.h"

#include "gtest/gtest.h"

namespace psring {
namespace {

TEST(WithThousandsTest, GroupsDigits) {
  EXPECT_EQ(WithThousands(0), "0");
  EXPECT_EQ(WithThousands(999), "999");
  EXPECT_EQ(WithThousands(1000), "1,000");
  EXPECT_EQ(WithThousands(12345), "12,345");
  EXPECT_EQ(WithThousands(1234567), "1,234,567");
  EXPECT_EQ(WithThousands(-999), "-999");
  EXPECT_EQ(WithThousands(-100000), "-100,000");
}

TEST(FormatTableTest, ColumnsAreAsWideAsNeeded) {
  EXPECT_EQ(FormatTable({"name", "sent", "in"}, {{"a", "1", "12345"}, {"longer", "22"}}),
            "  name    sent     in\n"
            "  a          1  12345\n"
            "  longer    22\n");
}

TEST(FormatTableTest, NoBlanksAtTheEndOfALine) {
  EXPECT_EQ(FormatTable({"", "x"}, {{"only a name"}, {"y", ""}}),
            "               x\n"
            "  only a name\n"
            "  y\n");
}

// "µ" is two bytes and one column.
TEST(FormatTableTest, CountsCharactersNotBytes) {
  EXPECT_EQ(FormatTable({"part", "µs"}, {{"données", "10"}, {"total", "7"}}),
            "  part     µs\n"
            "  données  10\n"
            "  total     7\n");
}

TEST(EnumerateTest, NamesAndCounts) {
  EXPECT_EQ(Enumerate("rank", {"3"}, 4), "rank 3");
  EXPECT_EQ(Enumerate("rank", {"1", "3"}, 4), "ranks 1 and 3");
  EXPECT_EQ(Enumerate("rank", {"1", "2", "3", "5"}, 4), "ranks 1, 2, 3 and 5");
  EXPECT_EQ(Enumerate("rank", {"1", "2", "3", "5", "6"}, 4), "ranks 1, 2, 3 and 2 more");
}

}  // namespace
}  // namespace psring
