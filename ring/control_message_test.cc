#include "ring/control_message.h"

#include <cstring>

#include "gtest/gtest.h"

namespace psring {
namespace {

std::span<const std::byte> BytesOf(const std::string& text) {
  return std::as_bytes(std::span(text));
}

Failure Reason(const std::string& message) {
  Failure reason;
  reason.set_status_code(14);
  reason.set_message(message);
  reason.set_exit_code(5);
  return reason;
}

TEST(ControlMessageTest, IsReadHoweverItIsCut) {
  const std::string sent = EncodeWaiting(true) + EncodeWaiting(false) +
                           EncodeWaiting(true) + EncodeReason(Reason("worker 1 is gone"));
  for (size_t piece = 1; piece <= sent.size(); ++piece) {
    ControlReader reader;
    for (size_t begin = 0; begin < sent.size(); begin += piece) {
      EXPECT_FALSE(reader.ended());
      reader.Take(BytesOf(sent.substr(begin, piece)));
    }
    EXPECT_TRUE(reader.waiting());
    ASSERT_TRUE(reader.reason().has_value());
    EXPECT_EQ(reader.reason()->message(), "worker 1 is gone");
    EXPECT_EQ(reader.reason()->exit_code(), 5);
    EXPECT_TRUE(reader.ended());
  }
}

TEST(ControlMessageTest, WhoNoLongerWaitsSaysSo) {
  ControlReader reader;
  EXPECT_FALSE(reader.waiting());
  reader.Take(BytesOf(EncodeWaiting(true)));
  EXPECT_TRUE(reader.waiting());
  reader.Take(BytesOf(EncodeWaiting(false)));
  EXPECT_FALSE(reader.waiting());
}

TEST(ControlMessageTest, AReasonTooLongToSendIsSaidToBeSo) {
  ControlReader reader;
  reader.Take(BytesOf(EncodeReason(Reason(std::string(100'000, 'x')))));
  ASSERT_TRUE(reader.reason().has_value());
  EXPECT_EQ(reader.reason()->message(), "its reason has 100000 bytes");
  EXPECT_EQ(reader.reason()->exit_code(), 5);
}

TEST(ControlMessageTest, WhatIsNoMessageEndsTheConversation) {
  std::string claims_too_much = EncodeReason(Reason("x"));
  const uint32_t too_much = 1 << 20;
  std::memcpy(claims_too_much.data(), &too_much, sizeof(too_much));
  std::string no_failure = EncodeReason(Reason("x"));
  no_failure[8] = '\xff';
  for (const std::string& bytes : {claims_too_much, no_failure}) {
    ControlReader reader;
    reader.Take(BytesOf(bytes));
    EXPECT_TRUE(reader.ended());
    EXPECT_FALSE(reader.reason().has_value());
    reader.Take(BytesOf(EncodeWaiting(true)));
    EXPECT_FALSE(reader.waiting());
  }
}

}  // namespace
}  // namespace psring
