#include "ring/delay_line.h"

#include <string>

#include "absl/strings/string_view.h"
#include "absl/time/time.h"
#include "gtest/gtest.h"

namespace psring {
namespace {

std::span<const std::byte> BytesOf(absl::string_view text) {
  return std::as_bytes(std::span(text.data(), text.size()));
}

size_t Put(DelayLine& line, absl::string_view first, absl::string_view second,
           int64_t due_ms) {
  return line.Put(BytesOf(first), BytesOf(second), absl::Milliseconds(due_ms));
}

// "first|second".
std::string Due(const DelayLine& line, int64_t now_ms) {
  std::string text;
  for (const auto& piece : line.Due(absl::Milliseconds(now_ms))) {
    if (!text.empty()) text += '|';
    for (const std::byte byte : piece) text += static_cast<char>(byte);
  }
  return text;
}

TEST(DelayLineTest, EachByteIsHeldUntilItIsDue) {
  DelayLine line(100);
  EXPECT_EQ(line.NextDue(), absl::InfiniteDuration());
  EXPECT_EQ(Put(line, "ab", "c", 5), 3u);
  EXPECT_EQ(Put(line, "", "de", 7), 2u);
  EXPECT_EQ(Put(line, "f", "", 7), 1u);
  EXPECT_EQ(line.NextDue(), absl::Milliseconds(5));
  EXPECT_EQ(Due(line, 4), "");
  EXPECT_EQ(Due(line, 5), "abc|");
  EXPECT_EQ(Due(line, 6), "abc|");
  EXPECT_EQ(Due(line, 7), "abc|de");
}

TEST(DelayLineTest, WhatIsDroppedIsGoneInOrder) {
  DelayLine line(100);
  Put(line, "abc", "", 5);
  Put(line, "de", "", 7);
  Put(line, "f", "", 9);
  line.Drop(2);
  EXPECT_EQ(Due(line, 7), "c|de");
  line.Drop(2);
  EXPECT_EQ(line.NextDue(), absl::Milliseconds(7));
  EXPECT_EQ(Due(line, 7), "e|");
  EXPECT_EQ(Due(line, 9), "e|f");
  line.Drop(1);
  EXPECT_EQ(line.NextDue(), absl::Milliseconds(9));
  line.Clear();
  EXPECT_TRUE(line.empty());
  EXPECT_EQ(line.NextDue(), absl::InfiniteDuration());
  EXPECT_EQ(Due(line, 100), "");
}

TEST(DelayLineTest, HoldsNoMoreThanItMay) {
  DelayLine line(4);
  EXPECT_EQ(Put(line, "abc", "def", 1), 4u);
  EXPECT_EQ(line.room(), 0u);
  EXPECT_EQ(Put(line, "x", "", 1), 0u);
  EXPECT_EQ(Due(line, 1), "abcd|");
  line.Drop(3);
  EXPECT_EQ(Put(line, "efgh", "i", 2), 3u);
  EXPECT_EQ(Due(line, 2), "d|efg");
}

// What is being read does not move when more comes.
TEST(DelayLineTest, WhatIsDueStaysWhereItIs) {
  DelayLine line(10'000);
  Put(line, "abc", "", 0);
  const auto due = line.Due(absl::ZeroDuration());
  for (int i = 0; i < 1000; ++i) Put(line, "x", "", 1);
  EXPECT_EQ(due[0].data(), line.Due(absl::ZeroDuration())[0].data());
  EXPECT_EQ(Due(line, 0), "abc|");
}

}  // namespace
}  // namespace psring
