#include "common/carried_bytes.h"

#include <poll.h>
#include <unistd.h>

#include <string>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "common/status_matchers.h"
#include "common/tcp_socket.h"
#include "gtest/gtest.h"

namespace psring {
namespace {

constexpr char kNobody[] = "127.0.0.9:1";

struct Connection {
  std::string address;  // Of the listener.
  FileDescriptor caller;
  FileDescriptor listener;
};

void Await(const FileDescriptor& socket, short event) {
  pollfd wait = {.fd = socket.get(), .events = event, .revents = 0};
  ASSERT_EQ(poll(&wait, 1, 10'000), 1);
}

// Calls come from 127.0.0.1. `prefix` and `suffix` of the address that is called.
Connection Connect(const std::string& host, const std::string& prefix = "",
                   const std::string& suffix = "") {
  Connection connection;
  auto listener = ListenTcp(host, 0);
  EXPECT_OK(listener.status());
  connection.address = absl::StrCat(host, ":", *BoundPort(*listener));
  auto caller = StartConnectTcp(
      ResolveTcp(absl::StrCat(prefix, host, suffix, ":", *BoundPort(*listener)))
          ->front());
  EXPECT_OK(caller.status());
  connection.caller = *std::move(caller);
  Await(*listener, POLLIN);
  auto accepted = AcceptTcp(*listener);
  EXPECT_OK(accepted.status());
  connection.listener = std::move(accepted->socket);
  return connection;
}

// Returns when it has arrived.
void Send(const FileDescriptor& from, const FileDescriptor& to, size_t count) {
  std::vector<std::byte> bytes(count);
  const auto sent = SendTcp(from, bytes);
  ASSERT_OK(sent.status());
  ASSERT_EQ(*sent, count);
  for (size_t received = 0; received < count;) {
    Await(to, POLLIN);
    const auto more = ReceiveTcp(to, std::span(bytes).subspan(received));
    ASSERT_OK(more.status());
    received += *more;
  }
}

// Both ends are this process's, so each byte goes out and comes in once.
TEST(CarriedBytesTest, CountsWhatWentOverConnectionsToOtherAddresses) {
  EXPECT_FALSE(CarriedOverTcp(kNobody).has_value());
  const Connection other = Connect("127.0.0.2");
  Send(other.caller, other.listener, 1000);
  Send(other.listener, other.caller, 30);
  const FileDescriptor duplicate(dup(other.caller.get()));
  const Connection here = Connect("127.0.0.1");
  Send(here.caller, here.listener, 400);
  const auto carried = CarriedOverTcp(kNobody);
  ASSERT_TRUE(carried.has_value());
  EXPECT_NEAR(carried->out, 1030, 1);
  EXPECT_EQ(carried->in, 1030);
  // The caller's end leads to the exception, the listener's to the caller.
  const auto without = CarriedOverTcp(other.address);
  ASSERT_TRUE(without.has_value());
  EXPECT_EQ(without->out, 30);
  EXPECT_EQ(without->in, 1000);
  EXPECT_FALSE(CarriedOverTcp("no address").has_value());
}

// As gRPC has them.
TEST(CarriedBytesTest, AnIpv4AddressIsTheSameOnAnIpv6Socket) {
  if (!FileDescriptor(socket(AF_INET6, SOCK_STREAM, 0)).open()) GTEST_SKIP();
  const Connection other = Connect("127.0.0.2", "[::ffff:", "]");
  Send(other.caller, other.listener, 1000);
  EXPECT_NEAR(CarriedOverTcp(kNobody)->out, 1000, 1);
  EXPECT_EQ(CarriedOverTcp(other.address)->out, 0);
  const Connection here = Connect("127.0.0.1", "[::ffff:", "]");
  Send(here.caller, here.listener, 400);
  EXPECT_NEAR(CarriedOverTcp(kNobody)->out, 1000, 1);
}

}  // namespace
}  // namespace psring
