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
#include "absl/strings/str_cat.h"
#include "absl/time/clock.h"
#include "absl/time/time.h"
#include "common/errors.h"
#include "common/status_matchers.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "ring/transport.h"

namespace psring {

// Transports of all ranks, each linked to all others.
using TransportFactory = std::vector<std::unique_ptr<Transport>> (*)(int ranks);

class TransportConformanceTest : public testing::TestWithParam<TransportFactory> {
 protected:
  // Long enough for any machine; reached only by a bug.
  static constexpr absl::Duration kPatience = absl::Seconds(60);

  static std::byte Pattern(size_t index) {
    return static_cast<std::byte>((index * 131 + index / 251) & 0xff);
  }

  static absl::Status Wait(Transport& transport, int peer, SendInterest send,
                           bool receive, absl::Duration timeout = kPatience) {
    const Interest interest = {.peer = peer, .send = send, .receive = receive};
    return transport.Wait({&interest, 1}, timeout);
  }

  // Sends the pattern until the link is full, in two pieces at a time; returns the bytes
  // that went.
  static size_t Fill(Transport& sender, int peer) {
    std::vector<std::byte> piece(10'007);  // Prime, so that pieces wrap anywhere.
    size_t sent = 0;
    for (;;) {
      for (size_t i = 0; i < piece.size(); ++i) piece[i] = Pattern(sent + i);
      const std::span<const std::byte> bytes(piece);
      const absl::StatusOr<size_t> taken =
          sender.TrySend(peer, bytes.first(sent % 101), bytes.subspan(sent % 101));
      if (!taken.ok()) {
        ADD_FAILURE() << taken.status();
        return sent;
      }
      sent += *taken;
      // A link may refuse for a moment while the carrier passes bytes on. How long that
      // takes is up to it; what comes later finds a link that is only nearly full.
      if (*taken == 0 && absl::IsDeadlineExceeded(Wait(sender, peer, SendInterest::kNow,
                                                       false, absl::Milliseconds(20)))) {
        return sent;
      }
    }
  }

  // Receives `count` bytes, in two pieces at a time, and compares them with the pattern
  // from `first` on.
  static void Drain(Transport& receiver, int peer, size_t first, size_t count) {
    std::vector<std::byte> buffer(4'099);
    for (size_t done = 0; done < count;) {
      const std::span<std::byte> wanted =
          std::span(buffer).first(std::min(buffer.size(), count - done));
      const size_t cut = std::min(done % 101, wanted.size());
      ASSERT_OK_AND_ASSIGN(const size_t got, receiver.TryReceive(peer, wanted.first(cut),
                                                                 wanted.subspan(cut)));
      for (size_t i = 0; i < got; ++i) {
        ASSERT_EQ(buffer[i], Pattern(first + done + i)) << "byte " << first + done + i;
      }
      done += got;
      if (got == 0) {
        ASSERT_OK(Wait(receiver, peer, SendInterest::kNone, true));
      }
    }
  }

  // The error that ends a stream whose bytes have all been received.
  static absl::Status ReceiveError(Transport& receiver, int peer) {
    std::byte byte;
    for (;;) {
      const absl::StatusOr<size_t> got = receiver.TryReceive(peer, {&byte, 1});
      if (!got.ok()) return got.status();
      EXPECT_EQ(*got, 0u);
      const absl::Status status = Wait(receiver, peer, SendInterest::kNone, true);
      if (!status.ok()) return status;
    }
  }

  static auto IsLost(int peer) {
    return StatusIs(absl::StatusCode::kUnavailable,
                    testing::StartsWith(absl::StrCat("worker ", peer)));
  }
};

TEST_P(TransportConformanceTest, BytesArriveInOrderBothWaysOfEveryLink) {
  for (const int ranks : {2, 3, 5}) {
    const auto transports = GetParam()(ranks);
    std::vector<std::vector<size_t>> sent(ranks, std::vector<size_t>(ranks));
    for (int rank = 0; rank < ranks; ++rank) {
      EXPECT_EQ(transports[rank]->rank(), rank);
      EXPECT_EQ(transports[rank]->peers().size(), static_cast<size_t>(ranks - 1));
      for (const int peer : transports[rank]->peers()) {
        sent[rank][peer] = Fill(*transports[rank], peer);
        EXPECT_GT(sent[rank][peer], 0u);
      }
    }
    for (int rank = 0; rank < ranks; ++rank) {
      for (const int peer : transports[rank]->peers()) {
        Drain(*transports[rank], peer, 0, sent[peer][rank]);
      }
    }
  }
}

TEST_P(TransportConformanceTest, AFullLinkTakesNothingUntilItIsDrained) {
  const auto transports = GetParam()(2);
  const size_t sent = Fill(*transports[0], 1);
  Drain(*transports[1], 0, 0, sent);
  ASSERT_OK(Wait(*transports[0], 1, SendInterest::kNow, false));
  std::byte next = Pattern(sent);
  EXPECT_THAT(transports[0]->TrySend(1, {&next, 1}), IsOk());
  Drain(*transports[1], 0, sent, 1);
}

TEST_P(TransportConformanceTest, AnEmptyLinkGivesNothing) {
  const auto transports = GetParam()(2);
  std::byte byte;
  ASSERT_OK_AND_ASSIGN(const size_t got, transports[0]->TryReceive(1, {&byte, 1}));
  EXPECT_EQ(got, 0u);
  for (const SendInterest send : {SendInterest::kNone, SendInterest::kLater}) {
    EXPECT_THAT(Wait(*transports[0], 1, send, true, absl::ZeroDuration()),
                StatusIs(absl::StatusCode::kDeadlineExceeded, testing::_));
  }
}

TEST_P(TransportConformanceTest, AWaitEndsWithWhateverComesFirst) {
  const auto transports = GetParam()(3);
  const Interest interests[] = {{.peer = 1, .receive = true},
                                {.peer = 2, .receive = true}};
  absl::Status waited;
  std::thread waiter([&] { waited = transports[0]->Wait(interests, kPatience); });
  const std::byte byte = Pattern(0);
  EXPECT_THAT(transports[2]->TrySend(0, {&byte, 1}), IsOk());
  waiter.join();
  EXPECT_OK(waited);
  Drain(*transports[0], 2, 0, 1);
}

TEST_P(TransportConformanceTest, AWakeEndsTheWaitInFlightOrTheNextOne) {
  const auto transports = GetParam()(2);
  transports[0]->Wake();
  EXPECT_OK(Wait(*transports[0], 1, SendInterest::kLater, true));
  std::thread waker([&] { transports[0]->Wake(); });
  EXPECT_OK(Wait(*transports[0], 1, SendInterest::kLater, true));
  waker.join();
}

TEST_P(TransportConformanceTest, AbortWakesAWaitingRank) {
  const auto transports = GetParam()(2);
  absl::Status waited;
  std::thread waiter(
      [&] { waited = Wait(*transports[0], 1, SendInterest::kLater, true); });
  transports[0]->Abort(absl::CancelledError("enough"));
  transports[0]->Abort(absl::CancelledError("the first reason counts"));
  waiter.join();
  const auto is_reason = StatusIs(absl::StatusCode::kCancelled, "enough");
  EXPECT_THAT(waited, is_reason);
  std::byte byte{};
  EXPECT_THAT(transports[0]->TrySend(1, {&byte, 1}), is_reason);
  EXPECT_THAT(transports[0]->TryReceive(1, {&byte, 1}), is_reason);
  EXPECT_THAT(Wait(*transports[0], 1, SendInterest::kNone, true), is_reason);
}

TEST_P(TransportConformanceTest, AnAbortTellsEveryPeerWhy) {
  const auto transports = GetParam()(3);
  const absl::Status reason = PeerLostError("worker 7 is gone");
  transports[1]->Abort(reason);
  const absl::Status received = ReceiveError(*transports[2], 1);
  const absl::Status waited = Wait(*transports[0], 1, SendInterest::kLater, false);
  for (const absl::Status& status : {received, waited}) {
    EXPECT_THAT(status, StatusIs(absl::StatusCode::kUnavailable, "worker 7 is gone"));
    EXPECT_EQ(ExitCodeOf(status), ExitCode::kPeerLost);
    EXPECT_TRUE(IsRelayed(status));
  }
  EXPECT_FALSE(IsRelayed(reason));

  // And so on to others, word by word.
  transports[2]->Abort(received);
  EXPECT_EQ(ReceiveError(*transports[0], 2), received);
}

TEST_P(TransportConformanceTest, WhoIsToldToStopIsLostToTheOthers) {
  const auto transports = GetParam()(2);
  transports[1]->Abort(absl::CancelledError("enough"));
  const absl::Status status = ReceiveError(*transports[0], 1);
  EXPECT_THAT(status,
              StatusIs(absl::StatusCode::kUnavailable, "worker 1 gave up: enough"));
  EXPECT_EQ(ExitCodeOf(status), ExitCode::kPeerLost);
}

TEST_P(TransportConformanceTest, AClosedPeerIsAnErrorThatNamesIt) {
  auto transports = GetParam()(3);
  const size_t sent = Fill(*transports[1], 2);
  std::thread leaver([&] { transports[1].reset(); });
  Drain(*transports[2], 1, 0, sent);  // What it had sent still comes.
  leaver.join();
  const absl::Status lost = ReceiveError(*transports[2], 1);
  EXPECT_THAT(lost, IsLost(1));
  EXPECT_EQ(ExitCodeOf(lost), ExitCode::kPeerLost);
  EXPECT_FALSE(IsRelayed(lost));
  for (const SendInterest send : {SendInterest::kLater, SendInterest::kNow}) {
    EXPECT_THAT(Wait(*transports[0], 1, send, true), IsLost(1));
  }
}

TEST_P(TransportConformanceTest, APeerThatIsNoLongerNeededMayLeave) {
  auto transports = GetParam()(3);
  transports[1].reset();
  // Learns that the peer has left, and then no longer minds.
  EXPECT_THAT(Wait(*transports[0], 1, SendInterest::kLater, false), IsLost(1));
  EXPECT_THAT(Wait(*transports[0], 2, SendInterest::kNone, true, absl::ZeroDuration()),
              StatusIs(absl::StatusCode::kDeadlineExceeded, testing::_));
  const size_t sent = Fill(*transports[2], 0);
  Drain(*transports[0], 2, 0, sent);
}

TEST_P(TransportConformanceTest, PeersSayThatTheyWaitBesideAFullLink) {
  const auto transports = GetParam()(2);
  EXPECT_FALSE(transports[0]->SaysWaiting(1));
  const size_t sent = Fill(*transports[1], 0);
  for (const bool waiting : {true, false}) {
    transports[1]->SayWaiting(waiting);
    // It passes the payload, but not in no time.
    const absl::Time limit = absl::Now() + kPatience;
    while (transports[0]->SaysWaiting(1) != waiting && absl::Now() < limit) {
      std::this_thread::yield();
    }
    EXPECT_EQ(transports[0]->SaysWaiting(1), waiting);
  }
  Drain(*transports[0], 1, 0, sent);
}

TEST_P(TransportConformanceTest, CountsEveryByteAndWhatItWaitedFor) {
  const auto transports = GetParam()(3);
  std::vector<WireBytes> before;
  for (const auto& transport : transports) before.push_back(transport->totals().wire);
  const auto sent = static_cast<int64_t>(Fill(*transports[0], 1));
  EXPECT_GE(transports[0]->totals().wire.out - before[0].out, sent);
  Drain(*transports[1], 0, 0, static_cast<size_t>(sent));
  EXPECT_EQ(transports[1]->totals().wire.in - before[1].in,
            transports[0]->totals().wire.out - before[0].out);
  EXPECT_EQ(transports[1]->totals().wire.out, before[1].out);
  EXPECT_EQ(transports[2]->totals().wire.in, before[2].in);
  EXPECT_EQ(transports[1]->totals(0).wire.in + transports[1]->totals(2).wire.in,
            transports[1]->totals().wire.in);

  // The waits above ended by themselves or not at all; this one ends with a byte.
  const absl::Duration waited = transports[2]->totals(0).awaiting_bytes;
  const std::byte byte = Pattern(0);
  std::thread waiter(
      [&] { EXPECT_OK(Wait(*transports[2], 0, SendInterest::kNone, true)); });
  EXPECT_THAT(transports[0]->TrySend(2, {&byte, 1}), IsOk());
  waiter.join();
  EXPECT_GT(transports[2]->totals(0).awaiting_bytes, waited);
  EXPECT_EQ(transports[2]->totals(0).awaiting_room, absl::ZeroDuration());
  EXPECT_EQ(transports[2]->totals(1).awaiting_bytes, absl::ZeroDuration());
}

}  // namespace psring

#endif  // PSRING_RING_TRANSPORT_CONFORMANCE_H_
