// What every Transport must do. An implementation's test includes this and adds
//
//   INSTANTIATE_TEST_SUITE_P(Name, TransportConformanceTest,
//                            testing::Values(&MakesConnectedTransports));
#ifndef PSRING_RING_TRANSPORT_CONFORMANCE_H_
#define PSRING_RING_TRANSPORT_CONFORMANCE_H_

#include <algorithm>
#include <cstddef>
#include <memory>
#include <string>
#include <thread>
#include <vector>

#include "absl/status/status.h"
#include "absl/time/time.h"
#include "common/errors.h"
#include "common/status_matchers.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "ring/transport.h"

namespace psring {

using RingFactory = std::vector<std::unique_ptr<Transport>> (*)(int ranks);

class TransportConformanceTest : public testing::TestWithParam<RingFactory> {
 protected:
  // Long enough for any machine; reached only by a bug.
  static constexpr absl::Duration kPatience = absl::Seconds(60);

  static std::byte Pattern(size_t index) {
    return static_cast<std::byte>((index * 131 + index / 251) & 0xff);
  }

  // Sends the pattern until the link is full; returns the bytes that went.
  static size_t Fill(Transport& sender) {
    std::vector<std::byte> piece(10'007);  // Prime, so that pieces wrap anywhere.
    size_t sent = 0;
    for (;;) {
      for (size_t i = 0; i < piece.size(); ++i) piece[i] = Pattern(sent + i);
      const absl::StatusOr<size_t> taken = sender.TrySend(piece);
      if (!taken.ok()) {
        ADD_FAILURE() << taken.status();
        return sent;
      }
      sent += *taken;
      // A socket may refuse for a moment while the kernel passes bytes on.
      if (*taken == 0 && absl::IsDeadlineExceeded(sender.Wait(SendInterest::kNow, false,
                                                              absl::ZeroDuration()))) {
        return sent;
      }
    }
  }

  // Receives `count` bytes and compares them with the pattern from `first` on.
  static void Drain(Transport& receiver, size_t first, size_t count) {
    std::vector<std::byte> buffer(4'099);
    for (size_t done = 0; done < count;) {
      const size_t wanted = std::min(buffer.size(), count - done);
      ASSERT_OK_AND_ASSIGN(const size_t got,
                           receiver.TryReceive(std::span(buffer).first(wanted)));
      for (size_t i = 0; i < got; ++i) {
        ASSERT_EQ(buffer[i], Pattern(first + done + i)) << "byte " << first + done + i;
      }
      done += got;
      if (got == 0) {
        ASSERT_OK(receiver.Wait(SendInterest::kNone, true, kPatience));
      }
    }
  }

  // The error that ends a stream whose bytes have all been received.
  static absl::Status ReceiveError(Transport& receiver) {
    std::byte byte;
    for (;;) {
      const absl::StatusOr<size_t> got = receiver.TryReceive({&byte, 1});
      if (!got.ok()) return got.status();
      EXPECT_EQ(*got, 0u);
      const absl::Status status = receiver.Wait(SendInterest::kNone, true, kPatience);
      if (!status.ok()) return status;
    }
  }
};

TEST_P(TransportConformanceTest, BytesGoRightAndArriveInOrder) {
  for (const int ranks : {2, 3, 5}) {
    const auto ring = GetParam()(ranks);
    std::vector<size_t> sent;
    for (const auto& transport : ring) sent.push_back(Fill(*transport));
    for (int rank = 0; rank < ranks; ++rank) {
      EXPECT_GT(sent[rank], 0u);
      Drain(*ring[(rank + 1) % ranks], 0, sent[rank]);
    }
  }
}

TEST_P(TransportConformanceTest, AFullLinkTakesNothingUntilItIsDrained) {
  const auto ring = GetParam()(2);
  const size_t sent = Fill(*ring[0]);
  Drain(*ring[1], 0, sent);
  ASSERT_OK(ring[0]->Wait(SendInterest::kNow, false, kPatience));
  std::byte next = Pattern(sent);
  EXPECT_THAT(ring[0]->TrySend({&next, 1}), IsOk());
  Drain(*ring[1], sent, 1);
}

TEST_P(TransportConformanceTest, AnEmptyLinkGivesNothing) {
  const auto ring = GetParam()(2);
  std::byte byte;
  ASSERT_OK_AND_ASSIGN(const size_t got, ring[0]->TryReceive({&byte, 1}));
  EXPECT_EQ(got, 0u);
  for (const SendInterest send : {SendInterest::kNone, SendInterest::kLater}) {
    EXPECT_THAT(ring[0]->Wait(send, true, absl::ZeroDuration()),
                StatusIs(absl::StatusCode::kDeadlineExceeded, testing::_));
  }
}

TEST_P(TransportConformanceTest, AbortWakesAWaitingRank) {
  const auto ring = GetParam()(2);
  absl::Status waited;
  std::thread waiter(
      [&] { waited = ring[0]->Wait(SendInterest::kLater, true, kPatience); });
  ring[0]->Abort(absl::CancelledError("enough"));
  ring[0]->Abort(absl::CancelledError("the first reason counts"));
  waiter.join();
  const auto is_reason = StatusIs(absl::StatusCode::kCancelled, "enough");
  EXPECT_THAT(waited, is_reason);
  std::byte byte{};
  EXPECT_THAT(ring[0]->TrySend({&byte, 1}), is_reason);
  EXPECT_THAT(ring[0]->TryReceive({&byte, 1}), is_reason);
  EXPECT_THAT(ring[0]->Wait(SendInterest::kNone, true, kPatience), is_reason);
}

TEST_P(TransportConformanceTest, AbortClosesBothConnections) {
  const auto ring = GetParam()(3);
  ring[1]->Abort(absl::CancelledError("enough"));
  EXPECT_THAT(ReceiveError(*ring[2]),
              StatusIs(absl::StatusCode::kUnavailable,
                       testing::StartsWith("left neighbour worker 1")));
  EXPECT_THAT(ring[0]->Wait(SendInterest::kLater, false, kPatience),
              StatusIs(absl::StatusCode::kUnavailable,
                       testing::StartsWith("right neighbour worker 1")));
}

TEST_P(TransportConformanceTest, AClosedPeerIsAnErrorThatNamesIt) {
  auto ring = GetParam()(3);
  const size_t sent = Fill(*ring[1]);
  ring[1].reset();
  Drain(*ring[2], 0, sent);  // What it had sent still comes.
  const absl::Status left_lost = ReceiveError(*ring[2]);
  EXPECT_THAT(left_lost, StatusIs(absl::StatusCode::kUnavailable,
                                  testing::StartsWith("left neighbour worker 1")));
  EXPECT_EQ(ExitCodeOf(left_lost), ExitCode::kPeerLost);
  for (const SendInterest send : {SendInterest::kLater, SendInterest::kNow}) {
    EXPECT_THAT(ring[0]->Wait(send, true, kPatience),
                StatusIs(absl::StatusCode::kUnavailable,
                         testing::StartsWith("right neighbour worker 1")));
  }
}

TEST_P(TransportConformanceTest, ARightNeighbourThatIsNoLongerNeededMayLeave) {
  auto ring = GetParam()(3);
  ring[1].reset();
  // Learns that the neighbour has left, and then no longer minds.
  EXPECT_FALSE(ring[0]->Wait(SendInterest::kLater, true, kPatience).ok());
  EXPECT_THAT(ring[0]->Wait(SendInterest::kNone, true, absl::ZeroDuration()),
              StatusIs(absl::StatusCode::kDeadlineExceeded, testing::_));
  const size_t sent = Fill(*ring[2]);
  Drain(*ring[0], 0, sent);
}

TEST_P(TransportConformanceTest, CountsEveryByteOnTheWire) {
  const auto ring = GetParam()(3);
  std::vector<WireBytes> before;
  for (const auto& transport : ring) before.push_back(transport->wire());
  const auto sent = static_cast<int64_t>(Fill(*ring[0]));
  EXPECT_EQ(ring[0]->wire().out - before[0].out, sent);
  EXPECT_EQ(ring[1]->wire().in - before[1].in, 0);
  Drain(*ring[1], 0, static_cast<size_t>(sent));
  EXPECT_EQ(ring[1]->wire().in - before[1].in, sent);
  EXPECT_EQ(ring[1]->wire().out - before[1].out, 0);
  EXPECT_EQ(ring[2]->wire().in - before[2].in, 0);
  EXPECT_EQ(ring[0]->wire().in - before[0].in, 0);
}

}  // namespace psring

#endif  // PSRING_RING_TRANSPORT_CONFORMANCE_H_
