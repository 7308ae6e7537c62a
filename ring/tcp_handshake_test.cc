#include "ring/tcp_handshake.h"

#include <string>

#include "common/status_matchers.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"

namespace psring {
namespace {

using testing::AllOf;
using testing::HasSubstr;

const RingMember kCaller = {
    .job = "a", .rank = 1, .ranks = 4, .layout_fingerprint = 0xabc};
const RingMember kListener = {
    .job = "a", .rank = 2, .ranks = 4, .layout_fingerprint = 0xabc};

absl::Status Judge(const RingMember& caller, int receiver = 2, int connection = 0) {
  return JudgeHandshake(
      MakeHandshake(caller, receiver, connection, HandshakeVerdict::kAsking), kListener,
      /*sender=*/1);
}

TEST(TcpHandshakeTest, WelcomesTheNeighbour) { EXPECT_OK(Judge(kCaller)); }

TEST(TcpHandshakeTest, AnotherJobIsAStrangerAndBothAreNamed) {
  RingMember caller = kCaller;
  caller.job = "b";
  EXPECT_THAT(Judge(caller),
              StatusIs(absl::StatusCode::kNotFound,
                       AllOf(HasSubstr("job 'b', worker 1 of 4, for worker 2"),
                             HasSubstr("job 'a', worker 2 of 4"))));
}

TEST(TcpHandshakeTest, JobsThatDifferOnlyBeyondTheShownNameAreStrangers) {
  RingMember caller = kCaller;
  caller.job = std::string(200, 'x') + "1";
  RingMember listener = kListener;
  listener.job = std::string(200, 'x') + "2";
  const Handshake handshake = MakeHandshake(caller, 2, 0, HandshakeVerdict::kAsking);
  EXPECT_THAT(JudgeHandshake(handshake, listener, 1),
              StatusIs(absl::StatusCode::kNotFound, testing::_));
  listener.job = caller.job;
  EXPECT_OK(JudgeHandshake(handshake, listener, 1));
}

TEST(TcpHandshakeTest, WhateverBytesAreInTheShownNameTheMessageIsReadable) {
  RingMember caller = kCaller;
  caller.job = "b\n\x1b\xff";
  EXPECT_THAT(Judge(caller), StatusIs(absl::StatusCode::kNotFound,
                                      HasSubstr("job 'b\\n\\x1b\\xff', worker 1")));
}

TEST(TcpHandshakeTest, AnotherRankIsAStranger) {
  RingMember caller = kCaller;
  caller.rank = 3;
  EXPECT_THAT(Judge(caller),
              StatusIs(absl::StatusCode::kNotFound,
                       AllOf(HasSubstr("worker 3 of 4"), HasSubstr("expects worker 1"))));
  EXPECT_THAT(Judge(kCaller, /*receiver=*/3),
              StatusIs(absl::StatusCode::kNotFound, HasSubstr("for worker 3")));
}

TEST(TcpHandshakeTest, AnotherProgramOrVersionIsAStranger) {
  Handshake handshake = MakeHandshake(kCaller, 2, 0, HandshakeVerdict::kAsking);
  handshake.version += 1;
  EXPECT_THAT(JudgeHandshake(handshake, kListener, 1),
              StatusIs(absl::StatusCode::kNotFound, HasSubstr("version")));
  handshake.magic += 1;
  EXPECT_FALSE(HasMagic(handshake));
  EXPECT_THAT(JudgeHandshake(handshake, kListener, 1),
              StatusIs(absl::StatusCode::kNotFound, HasSubstr("not a psring")));
}

TEST(TcpHandshakeTest, TheNeighbourWithOtherSettingsIsAMisfit) {
  RingMember caller = kCaller;
  caller.ranks = 5;
  EXPECT_THAT(Judge(caller), StatusIs(absl::StatusCode::kFailedPrecondition,
                                      HasSubstr("worker 1 of 5")));
  caller = kCaller;
  caller.layout_fingerprint = 0xdef;
  EXPECT_THAT(Judge(caller), StatusIs(absl::StatusCode::kFailedPrecondition,
                                      AllOf(HasSubstr("0000000000000def there"),
                                            HasSubstr("0000000000000abc here"))));
  caller = kCaller;
  caller.lanes = 3;
  EXPECT_THAT(Judge(caller),
              StatusIs(absl::StatusCode::kFailedPrecondition,
                       HasSubstr("uses 3 connections to a peer, and this rank 1")));
}

TEST(TcpHandshakeTest, AConnectionThatIsNotThereIsAStranger) {
  for (const int connection : {kControlConnection, 0, 1}) {
    EXPECT_OK(Judge(kCaller, 2, connection));
  }
  for (const int connection : {-2, 2, 1 << 30}) {
    EXPECT_THAT(Judge(kCaller, 2, connection),
                StatusIs(absl::StatusCode::kNotFound, HasSubstr("of 1")));
  }
}

}  // namespace
}  // namespace psring
