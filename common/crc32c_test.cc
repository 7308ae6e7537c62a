#include "common/crc32c.h"

#include <string>
#include <vector>

#include "gtest/gtest.h"

namespace psring {
namespace {

uint32_t Of(const std::string& text, uint32_t before = 0) {
  return Crc32c(std::as_bytes(std::span(text)), before);
}

// RFC 3720, appendix B.4, and the usual check value.
TEST(Crc32cTest, HasTheKnownValues) {
  EXPECT_EQ(Of(""), 0u);
  EXPECT_EQ(Of("123456789"), 0xe3069283u);
  EXPECT_EQ(Of(std::string(32, '\0')), 0x8a9136aau);
  EXPECT_EQ(Of(std::string(32, '\xff')), 0x62a8ab43u);
}

TEST(Crc32cTest, GoesFromPieceToPiece) {
  const std::string text = "a checkpoint is written in several pieces";
  for (size_t cut = 0; cut <= text.size(); ++cut) {
    EXPECT_EQ(Of(text.substr(cut), Of(text.substr(0, cut))), Of(text)) << cut;
  }
}

}  // namespace
}  // namespace psring
