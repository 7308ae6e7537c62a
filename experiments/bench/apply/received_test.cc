#include "experiments/bench/apply/received.h"

#include <array>
#include <cstdint>
#include <vector>

#include "gtest/gtest.h"

namespace psring {
namespace {

int64_t SumOf(const std::vector<Bytes>& pieces) {
  int64_t bytes = 0;
  for (const Bytes& piece : pieces) bytes += static_cast<int64_t>(piece.size());
  return bytes;
}

TEST(ReceivedTest, NamesAreThoseOfTheFlag) {
  EXPECT_EQ(PieceKindName(PieceKindOf("whole")), "whole");
  EXPECT_EQ(PieceKindName(PieceKindOf("cut")), "cut");
}

TEST(ReceivedTest, WholeIsAllOfTheMemory) {
  const std::vector<std::byte> memory(ReceivedBytes(PieceKind::kWhole, 4000));
  ASSERT_EQ(memory.size(), 4000u);
  const auto pieces = ReceivedPieces(PieceKind::kWhole, memory.data(), 4000);
  ASSERT_EQ(pieces.size(), 1u);
  EXPECT_EQ(pieces[0].data(), memory.data());
  EXPECT_EQ(pieces[0].size(), 4000u);
}

TEST(ReceivedTest, CutPiecesLieInTheMemoryBehindTheirHeaders) {
  // Around a first frame that is full, and two.
  const int64_t first = kFrameBytes - kMessageHeaderBytes;
  for (const int64_t bytes : {int64_t{4}, first - 3, first + 1, int64_t{100'000},
                              first + kFrameBytes - 3, first + kFrameBytes + 1}) {
    ASSERT_EQ(bytes % 4, 0);
    const std::vector<std::byte> memory(ReceivedBytes(PieceKind::kCut, bytes));
    const auto pieces = ReceivedPieces(PieceKind::kCut, memory.data(), bytes);
    EXPECT_EQ(SumOf(pieces), bytes);
    const std::byte* at = memory.data() + kMessageHeaderBytes;
    for (const Bytes& piece : pieces) {
      at += kFrameHeaderBytes;
      EXPECT_EQ(piece.data(), at) << bytes;
      at += piece.size();
    }
    EXPECT_EQ(at, memory.data() + memory.size()) << bytes;
  }
}

TEST(ReceivedTest, EveryCutIsWithinAFloat) {
  const std::vector<std::byte> memory(ReceivedBytes(PieceKind::kCut, 1 << 20));
  const auto pieces = ReceivedPieces(PieceKind::kCut, memory.data(), 1 << 20);
  ASSERT_EQ(pieces.size(), 65u);
  std::array<int, 4> alignments = {};
  int64_t bytes = 0;
  for (const Bytes& piece : pieces) {
    EXPECT_TRUE(bytes == 0 || bytes % 4 == 3) << bytes;
    bytes += static_cast<int64_t>(piece.size());
    ++alignments[(piece.data() - memory.data()) % 4];
  }
  for (const int count : alignments) EXPECT_GE(count, 16);
}

}  // namespace
}  // namespace psring
