#include "ring/tcp_rendezvous.h"

#include <poll.h>

#include <cstddef>
#include <memory>
#include <string>
#include <thread>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "common/errors.h"
#include "common/job_plan.h"
#include "common/status_macros.h"
#include "common/status_matchers.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "ring/ring_test_util.h"

namespace psring {
namespace {

using testing::AllOf;
using testing::HasSubstr;

// Long enough for any machine; reached only by a bug.
constexpr absl::Duration kPatience = absl::Seconds(60);

std::string AddressOf(const PeerListener& listener) {
  return absl::StrCat("127.0.0.1:", listener.port());
}

std::unique_ptr<PeerListener> ListenOnLoopback() {
  auto listener = PeerListener::Listen("127.0.0.1", 0);
  EXPECT_OK(listener);
  return *std::move(listener);
}

RingMember Member(int rank, int ranks) {
  return {.job = "test", .rank = rank, .ranks = ranks, .layout_fingerprint = 1};
}

// Blocks until the socket is ready for `event`, or has failed.
void AwaitSocket(const FileDescriptor& socket, short event) {
  pollfd polled = {.fd = socket.get(), .events = event, .revents = 0};
  ASSERT_EQ(poll(&polled, 1, PollMilliseconds(kPatience)), 1);
}

FileDescriptor ConnectRaw(const PeerListener& listener) {
  auto addresses = ResolveTcp(AddressOf(listener));
  EXPECT_OK(addresses);
  auto socket = StartConnectTcp(addresses->front());
  EXPECT_OK(socket);
  AwaitSocket(*socket, POLLOUT);
  EXPECT_OK(SocketError(*socket));
  return *std::move(socket);
}

// One peer, the other of two ranks.
absl::StatusOr<std::unique_ptr<Transport>> Connect(std::unique_ptr<PeerListener> listener,
                                                   const RingMember& self,
                                                   const std::string& peer_listens_at) {
  return ConnectPeers(std::move(listener), self,
                      {{.rank = 1 - self.rank, .listens_at = peer_listens_at}},
                      /*spin=*/false, kPatience);
}

void ExpectBytesPass(Transport& from, Transport& to) {
  const std::byte sent{42};
  ASSERT_THAT(from.TrySend(to.rank(), {&sent, 1}), IsOk());
  const Interest interest = {.peer = from.rank(), .receive = true};
  std::byte received{};
  for (;;) {
    ASSERT_OK_AND_ASSIGN(const size_t got, to.TryReceive(from.rank(), {&received, 1}));
    if (got == 1) break;
    ASSERT_OK(to.Wait({&interest, 1}, kPatience));
  }
  EXPECT_EQ(received, sent);
}

TEST(TcpRendezvousTest, ConnectsOverIpv6) {
  constexpr int kRanks = 2;
  std::vector<std::unique_ptr<PeerListener>> listeners;
  std::vector<std::string> addresses;
  for (int rank = 0; rank < kRanks; ++rank) {
    auto listener = PeerListener::Listen("::1", 0);
    if (!listener.ok()) GTEST_SKIP() << "no IPv6 here: " << listener.status();
    addresses.push_back(absl::StrCat("[::1]:", (*listener)->port()));
    listeners.push_back(*std::move(listener));
  }
  std::vector<std::unique_ptr<Transport>> ring(kRanks);
  const auto statuses = RunRanks(kRanks, [&](int rank) -> absl::Status {
    ASSIGN_OR_RETURN(ring[rank], Connect(std::move(listeners[rank]), Member(rank, kRanks),
                                         addresses[1 - rank]));
    return absl::OkStatus();
  });
  ASSERT_THAT(statuses, testing::Each(IsOk()));
  ExpectBytesPass(*ring[0], *ring[1]);
  EXPECT_THAT(ring[0]->name(1), HasSubstr(addresses[1]));
}

TEST(TcpRendezvousTest, ListensOnAllAddressesByDefault) {
  ASSERT_OK_AND_ASSIGN(const auto listener, PeerListener::Listen("", 0));
  EXPECT_TRUE(ConnectRaw(*listener).open());
}

TEST(TcpRendezvousTest, StrangersAreRefusedAndDoNoHarm) {
  auto listener0 = ListenOnLoopback();
  auto listener1 = ListenOnLoopback();
  const std::string address0 = AddressOf(*listener0);
  const std::string address1 = AddressOf(*listener1);
  const FileDescriptor silent = ConnectRaw(*listener1);
  const FileDescriptor babbler = ConnectRaw(*listener1);
  const std::string babble = "GET / HTTP/1.1\r\n";
  ASSERT_THAT(SendTcp(babbler, std::as_bytes(std::span(babble))), IsOk());

  absl::StatusOr<std::unique_ptr<Transport>> rank1;
  std::thread thread1(
      [&] { rank1 = Connect(std::move(listener1), Member(1, 2), address0); });
  AwaitSocket(babbler, POLLIN);
  std::byte byte;
  EXPECT_THAT(ReceiveTcp(babbler, {&byte, 1}),
              StatusIs(absl::StatusCode::kUnavailable, testing::_));

  RingMember other = Member(0, 2);
  other.job = "other";
  EXPECT_THAT(Connect(ListenOnLoopback(), other, address1),
              StatusIs(absl::StatusCode::kFailedPrecondition,
                       AllOf(HasSubstr("worker 1 (127.0.0.1:"),
                             HasSubstr("job 'test', worker 1 of 2"),
                             HasSubstr("job 'other', worker 0 of 2"))));

  auto rank0 = Connect(std::move(listener0), Member(0, 2), address1);
  thread1.join();
  ASSERT_OK(rank0);
  ASSERT_OK(rank1);
  ExpectBytesPass(**rank0, **rank1);
  ExpectBytesPass(**rank1, **rank0);
}

TEST(TcpRendezvousTest, ADroppedConnectionIsTriedAgain) {
  auto listener0 = ListenOnLoopback();
  auto listener1 = ListenOnLoopback();
  const std::string address0 = AddressOf(*listener0);
  const std::string address1 = AddressOf(*listener1);
  absl::StatusOr<std::unique_ptr<Transport>> rank0;
  std::thread thread0(
      [&] { rank0 = Connect(std::move(listener0), Member(0, 2), address1); });
  AwaitSocket(listener1->socket(), POLLIN);
  EXPECT_THAT(AcceptTcp(listener1->socket()), IsOk());  // And hung up on at once.
  auto rank1 = Connect(std::move(listener1), Member(1, 2), address0);
  thread0.join();
  ASSERT_OK(rank0);
  ASSERT_OK(rank1);
  ExpectBytesPass(**rank0, **rank1);
}

TEST(TcpRendezvousTest, TheDeadlineNamesWhoNeverCame) {
  const auto mute = ListenOnLoopback();
  auto listener = ListenOnLoopback();
  const int port = listener->port();
  const auto connected =
      ConnectPeers(std::move(listener), Member(1, 3),
                   {{.rank = 0}, {.rank = 2, .listens_at = AddressOf(*mute)}}, false,
                   absl::Milliseconds(50));
  EXPECT_THAT(
      connected,
      StatusIs(absl::StatusCode::kDeadlineExceeded,
               AllOf(HasSubstr("job 'test', worker 1 of 3"),
                     HasSubstr(absl::StrCat("worker 0 never connected to port ", port)),
                     HasSubstr(absl::StrCat("worker 2 (", AddressOf(*mute), ") ")))));
  EXPECT_EQ(ExitCodeOf(connected.status()), ExitCode::kRendezvousTimeout);
}

TEST(TcpRendezvousTest, PeersWithOtherLayoutsFailAtOnceOnBothSides) {
  std::unique_ptr<PeerListener> listeners[] = {ListenOnLoopback(), ListenOnLoopback()};
  const std::string addresses[] = {AddressOf(*listeners[0]), AddressOf(*listeners[1])};
  const auto statuses = RunRanks(2, [&](int rank) {
    RingMember self = Member(rank, 2);
    self.layout_fingerprint = static_cast<uint64_t>(rank);
    return Connect(std::move(listeners[rank]), self, addresses[1 - rank]).status();
  });
  EXPECT_THAT(statuses, testing::Each(StatusIs(absl::StatusCode::kFailedPrecondition,
                                               HasSubstr("tensors or buckets differ"))));
}

// Rank r's settings of two are settings[r]; both ranks must name both fingerprints.
void ExpectRefusalOnBothSides(const JobSpec (&settings)[2]) {
  std::unique_ptr<PeerListener> listeners[] = {ListenOnLoopback(), ListenOnLoopback()};
  const std::string addresses[] = {AddressOf(*listeners[0]), AddressOf(*listeners[1])};
  const uint64_t fingerprints[] = {Fingerprint(settings[0]), Fingerprint(settings[1])};
  const auto statuses = RunRanks(2, [&](int rank) {
    RingMember self = Member(rank, 2);
    self.layout_fingerprint = fingerprints[rank];
    return Connect(std::move(listeners[rank]), self, addresses[1 - rank]).status();
  });
  for (int rank = 0; rank < 2; ++rank) {
    EXPECT_THAT(
        statuses[rank],
        StatusIs(
            absl::StatusCode::kFailedPrecondition,
            HasSubstr(absl::StrFormat(
                "its settings, tensors or buckets differ from this rank's (fingerprint "
                "%016x there, %016x here)",
                fingerprints[1 - rank], fingerprints[rank]))));
  }
}

// A job's fingerprint covers AUTO's table and the order of the ring, so that ranks with
// different ones never meet.
TEST(TcpRendezvousTest, PeersWithOtherTablesFailAtOnceAndBothNameThem) {
  JobSpec settings[2];
  for (int rank = 0; rank < 2; ++rank) {
    RingMode& ring = *settings[rank].mutable_arm()->mutable_ring();
    ring.set_algorithm(RingMode::AUTO);
    ring.add_choices()->set_up_to_bytes(rank + 1);
  }
  ExpectRefusalOnBothSides(settings);
}

TEST(TcpRendezvousTest, PeersWithOtherRingOrdersFailAtOnceAndBothNameThem) {
  JobSpec settings[2];
  for (const int rank : {0, 1, 2}) settings[0].mutable_experiment()->add_ring_order(rank);
  for (const int rank : {0, 2, 1}) settings[1].mutable_experiment()->add_ring_order(rank);
  ExpectRefusalOnBothSides(settings);
}

TEST(TcpRendezvousTest, BadAddressesAreErrors) {
  for (const char* address : {"", "host", ":80", "host:"}) {
    EXPECT_THAT(Connect(ListenOnLoopback(), Member(0, 2), address),
                StatusIs(absl::StatusCode::kInvalidArgument, HasSubstr("host:port")));
  }
  const auto taken = ListenOnLoopback();
  EXPECT_THAT(PeerListener::Listen("127.0.0.1", taken->port()),
              StatusIs(absl::StatusCode::kUnavailable, HasSubstr(AddressOf(*taken))));
}

}  // namespace
}  // namespace psring
