// A connection that is reset in the middle of an operation, as by a firewall between two
// hosts: both ends, and everybody else, end with an error that says between whom.
#include <poll.h>
#include <sys/socket.h>

#include <algorithm>
#include <array>
#include <cstddef>
#include <memory>
#include <span>
#include <string>
#include <thread>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "common/errors.h"
#include "common/status_macros.h"
#include "common/status_matchers.h"
#include "common/tcp_socket.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "ring/collectives_test_util.h"
#include "ring/ring_test_util.h"
#include "ring/tcp_transport.h"
#include "ring/transport_collectives.h"

namespace psring {
namespace {

using testing::AllOf;
using testing::AnyOf;
using testing::HasSubstr;
using testing::Not;

// Long enough for any machine; reached only by a bug.
constexpr absl::Duration kPatience = absl::Seconds(60);

void AwaitSocket(const FileDescriptor& socket, short event) {
  pollfd polled = {.fd = socket.get(), .events = event, .revents = 0};
  ASSERT_EQ(poll(&polled, 1, PollMilliseconds(kPatience)), 1);
}

// Both ends of a connection over loopback.
std::array<FileDescriptor, 2> Connection() {
  auto listener = ListenTcp("127.0.0.1", 0);
  EXPECT_OK(listener);
  auto addresses = ResolveTcp(absl::StrCat("127.0.0.1:", *BoundPort(*listener)));
  EXPECT_OK(addresses);
  auto client = StartConnectTcp(addresses->front());
  EXPECT_OK(client);
  AwaitSocket(*listener, POLLIN);
  auto accepted = AcceptTcp(*listener);
  EXPECT_OK(accepted);
  AwaitSocket(*client, POLLOUT);
  return {*std::move(client), std::move(accepted->socket)};
}

// Hands on `bytes` from one socket to the other, and then resets both connections.
void PassAndReset(FileDescriptor from, FileDescriptor to, size_t bytes) {
  std::vector<std::byte> buffer(64 << 10);
  while (bytes > 0) {
    AwaitSocket(from, POLLIN);
    const auto received =
        ReceiveTcp(from, std::span(buffer).first(std::min(bytes, buffer.size())));
    ASSERT_OK(received);
    std::span<const std::byte> rest(buffer.data(), *received);
    bytes -= rest.size();
    while (!rest.empty()) {
      AwaitSocket(to, POLLOUT);
      const auto sent = SendTcp(to, rest);
      ASSERT_OK(sent);
      rest = rest.subspan(*sent);
    }
  }
  // Without lingering, closing sends a reset.
  const linger none = {.l_onoff = 1, .l_linger = 0};
  for (const FileDescriptor* socket : {&from, &to}) {
    ASSERT_EQ(setsockopt(socket->get(), SOL_SOCKET, SO_LINGER, &none, sizeof none), 0);
  }
}

// Three ranks in a ring, where what rank 0 sends to rank 1 passes somebody who resets the
// connection after so many bytes.
class TcpResetTest : public testing::TestWithParam<size_t> {};

TEST_P(TcpResetTest, NamesThePeerOnEveryRank) {
  constexpr int kRanks = 3;
  std::vector<std::vector<TcpLink>> links(kRanks);
  const auto add = [&](int rank, int peer, FileDescriptor control, FileDescriptor out,
                       FileDescriptor in) {
    TcpLink& link = links[rank].emplace_back();
    link.peer = {.rank = peer, .name = absl::StrCat("worker ", peer)};
    link.control = std::move(control);
    link.out.push_back(std::move(out));
    link.in.push_back(std::move(in));
  };
  std::thread middle;
  for (int rank = 0; rank < kRanks; ++rank) {
    const int right = (rank + 1) % kRanks;
    auto control = Connection();
    auto there = Connection();
    auto back = Connection();
    if (rank == 0) {
      auto second_half = Connection();
      middle = std::thread(&PassAndReset, std::move(there[1]), std::move(second_half[0]),
                           GetParam());
      there[1] = std::move(second_half[1]);
    }
    add(rank, right, std::move(control[0]), std::move(there[0]), std::move(back[1]));
    add(right, rank, std::move(control[1]), std::move(back[0]), std::move(there[1]));
  }
  std::vector<std::unique_ptr<TransportCollectives>> collectives;
  for (int rank = 0; rank < kRanks; ++rank) {
    auto transport = TcpTransport::Make(rank, std::move(links[rank]), /*spin=*/false);
    ASSERT_OK(transport);
    collectives.push_back(std::make_unique<TransportCollectives>(
        rank, *std::move(transport), CollectiveOptions{.order = RingOrder(kRanks)}));
  }
  // Until it fails: who has handed on all its bytes need not hear of a sum's failure.
  const auto statuses = RunRanks(kRanks, [&](int rank) -> absl::Status {
    std::vector<float> values(1 << 20);
    for (;;) RETURN_IF_ERROR(collectives[rank]->AllReduce(kTag, SpanOf(values)));
  });
  middle.join();
  for (int rank = 0; rank < kRanks; ++rank) {
    EXPECT_THAT(statuses[rank],
                StatusIs(absl::StatusCode::kUnavailable,
                         AllOf(HasSubstr("sum of bucket 3"),
                               AnyOf(HasSubstr("worker 0"), HasSubstr("worker 1")),
                               Not(HasSubstr("no byte moved")))))
        << "rank " << rank;
    EXPECT_EQ(ExitCodeOf(statuses[rank]), ExitCode::kPeerLost);
  }
}

// In the header; in the reduce-scatter; in the all-gather.
INSTANTIATE_TEST_SUITE_P(After, TcpResetTest,
                         testing::Values(20, 1 << 20, (1 << 22) + (1 << 20)),
                         [](const auto& info) {
                           return absl::StrCat("Bytes", info.param);
                         });

}  // namespace
}  // namespace psring
