#include "ring/delayed_transport.h"

#include <memory>
#include <thread>
#include <utility>
#include <vector>

#include "absl/time/time.h"
#include "common/status_matchers.h"
#include "common/test_clock.h"
#include "gtest/gtest.h"
#include "ring/in_process_transport.h"
#include "ring/ring_test_util.h"
#include "ring/transport_conformance.h"

namespace psring {
namespace {

std::vector<std::unique_ptr<Transport>> OverSmallLinks(int ranks) {
  return DelayAll(MakeInProcessTransports(ranks, 13), absl::Milliseconds(1), 500);
}
std::vector<std::unique_ptr<Transport>> OverLargeLinks(int ranks) {
  return DelayAll(MakeInProcessTransports(ranks, 64 * 1024), absl::Milliseconds(1),
                  64 * 1024);
}
std::vector<std::unique_ptr<Transport>> OverTcp(int ranks) {
  return MakeTransports(TransportKind::kTcpDelayed, ranks);
}
std::vector<std::unique_ptr<Transport>> WithoutDelay(int ranks) {
  return DelayAll(MakeTransports(TransportKind::kTcp, ranks), absl::ZeroDuration(),
                  1 << 20);
}

INSTANTIATE_TEST_SUITE_P(Delayed, TransportConformanceTest,
                         testing::Values(&OverSmallLinks, &OverLargeLinks, &OverTcp,
                                         &WithoutDelay));

// Rank 0 has links to 1 and 2 on a clock that the test sets.
class DelayedTransportTest : public testing::Test {
 protected:
  DelayedTransportTest() : transports_(MakeInProcessTransports(3, 64 * 1024)) {
    transports_[0] = std::make_unique<DelayedTransport>(
        std::move(transports_[0]),
        DelayedTransport::Options{
            .delays = {{1, absl::Milliseconds(10)}, {2, absl::Milliseconds(3)}},
            .most_held_bytes = 100},
        &clock_);
  }

  // Whether it was taken.
  bool Send(int peer, char value) {
    const auto byte = static_cast<std::byte>(value);
    const absl::StatusOr<size_t> sent = transports_[0]->TrySend(peer, {&byte, 1});
    EXPECT_OK(sent.status());
    return sent.ok() && *sent == 1;
  }
  // The next byte, which comes sooner or later.
  char Receive(int rank) {
    std::byte byte{};
    for (;;) {
      const absl::StatusOr<size_t> got = transports_[rank]->TryReceive(0, {&byte, 1});
      if (!got.ok()) ADD_FAILURE() << got.status();
      if (!got.ok() || *got == 1) return static_cast<char>(byte);
      const Interest interest = {.peer = 0, .receive = true};
      EXPECT_OK(transports_[rank]->Wait({&interest, 1}, absl::Seconds(60)));
    }
  }
  // Of what is still held back: what is due has left when the transport has looked at the
  // clock a few times more.
  bool HasCome(int rank) {
    clock_.AwaitLooks(10);
    const Interest interest = {.peer = 0, .receive = true};
    return transports_[rank]->Wait({&interest, 1}, absl::ZeroDuration()).ok();
  }
  void SetMs(int64_t now) { clock_.Set(absl::Milliseconds(now)); }

  TestClock clock_;
  std::vector<std::unique_ptr<Transport>> transports_;
};

TEST_F(DelayedTransportTest, BytesLeaveWhenTheDelayOfTheirLinkHasPassed) {
  Send(1, 'a');
  Send(2, 'x');
  SetMs(3);
  EXPECT_EQ(Receive(2), 'x');
  EXPECT_FALSE(HasCome(1));
  Send(2, 'y');
  SetMs(9);
  EXPECT_EQ(Receive(2), 'y');
  EXPECT_FALSE(HasCome(1));
  SetMs(10);
  EXPECT_EQ(Receive(1), 'a');
}

// A link is a pipe: ten bytes sent over 9 ms have come 9 ms after the first, not ten
// delays later.
TEST_F(DelayedTransportTest, BytesAreOnTheirWayTogether) {
  for (int i = 0; i < 10; ++i) {
    SetMs(i);
    EXPECT_TRUE(Send(1, static_cast<char>('a' + i)));
  }
  for (int i = 0; i < 10; ++i) {
    SetMs(10 + i);
    EXPECT_EQ(Receive(1), 'a' + i);
    if (i == 9) break;
    EXPECT_FALSE(HasCome(1)) << i;
  }
}

TEST_F(DelayedTransportTest, ALinkHoldsNoMoreThanItMay) {
  for (int i = 0; i < 100; ++i) EXPECT_TRUE(Send(1, 'a'));
  EXPECT_FALSE(Send(1, 'b'));
  EXPECT_TRUE(Send(2, 'x')) << "the other link is another";
  const Interest interest = {.peer = 1, .send = SendInterest::kNow};
  EXPECT_THAT(transports_[0]->Wait({&interest, 1}, absl::ZeroDuration()),
              StatusIs(absl::StatusCode::kDeadlineExceeded, testing::_));
  SetMs(10);
  EXPECT_OK(transports_[0]->Wait({&interest, 1}, absl::Seconds(60)));
  EXPECT_TRUE(Send(1, 'b'));
  SetMs(20);
}

TEST_F(DelayedTransportTest, WhatIsReceivedIsNotDelayed) {
  const std::byte byte{'c'};
  ASSERT_OK(transports_[1]->TrySend(0, {&byte, 1}));
  const Interest interest = {.peer = 1, .receive = true};
  EXPECT_OK(transports_[0]->Wait({&interest, 1}, absl::Seconds(60)));
}

// The clock goes on only when the transport is being destroyed.
TEST_F(DelayedTransportTest, ItsEndWaitsForWhatIsHeldBack) {
  Send(1, 'a');
  std::thread closer([this] { transports_[0].reset(); });
  SetMs(10);
  EXPECT_EQ(Receive(1), 'a');
  closer.join();
}

TEST_F(DelayedTransportTest, TheReasonOfAnAbortComesBehindWhatWasTaken) {
  Send(1, 'a');
  transports_[0]->Abort(absl::CancelledError("enough"));
  EXPECT_FALSE(HasCome(1));
  SetMs(10);
  EXPECT_EQ(Receive(1), 'a');
  transports_[0].reset();
  std::byte byte{};
  EXPECT_THAT(transports_[1]->TryReceive(0, {&byte, 1}),
              StatusIs(absl::StatusCode::kUnavailable, "worker 0 gave up: enough"));
}

}  // namespace
}  // namespace psring
