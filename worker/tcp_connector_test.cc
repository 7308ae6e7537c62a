#include "worker/tcp_connector.h"

#include <thread>

#include "absl/strings/str_cat.h"
#include "common/status_matchers.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"

namespace psring {
namespace {

using testing::AllOf;
using testing::HasSubstr;

std::chrono::steady_clock::time_point In(std::chrono::milliseconds time) {
  return std::chrono::steady_clock::now() + time;
}

// A port of this host at which nobody listens.
int FreePort() {
  const auto listener = ListenTcp("127.0.0.1", 0);
  return *BoundPort(*listener);
}

TEST(TcpConnectorTest, ConnectsToAServer) {
  ASSERT_OK_AND_ASSIGN(const FileDescriptor listener, ListenTcp("127.0.0.1", 0));
  ASSERT_OK_AND_ASSIGN(const int port, BoundPort(listener));
  TcpConnector connector(absl::StrCat("127.0.0.1:", port));
  ASSERT_OK_AND_ASSIGN(const FileDescriptor socket,
                       connector.Connect(In(std::chrono::hours(1))));
  ASSERT_OK_AND_ASSIGN(const AcceptedTcp accepted, AcceptTcp(listener));
  EXPECT_TRUE(accepted.socket.open());
}

TEST(TcpConnectorTest, WaitsForAServerThatComesLater) {
  const int port = FreePort();
  TcpConnector connector(absl::StrCat("127.0.0.1:", port));
  EXPECT_THAT(connector.Connect(In(std::chrono::milliseconds(1))),
              StatusIs(absl::StatusCode::kDeadlineExceeded, testing::_));
  absl::StatusOr<FileDescriptor> socket;
  std::thread connecting([&] { socket = connector.Connect(In(std::chrono::hours(1))); });
  ASSERT_OK_AND_ASSIGN(const FileDescriptor listener, ListenTcp("127.0.0.1", port));
  connecting.join();
  EXPECT_OK(socket);
}

TEST(TcpConnectorTest, ADeadlineNamesTheAddressAndTheLastError) {
  const std::string address = absl::StrCat("127.0.0.1:", FreePort());
  TcpConnector connector(address);
  EXPECT_THAT(connector.Connect(In(std::chrono::milliseconds(20))),
              StatusIs(absl::StatusCode::kDeadlineExceeded,
                       AllOf(HasSubstr(absl::StrCat("cannot connect to ", address)),
                             HasSubstr("Connection refused"))));
}

TEST(TcpConnectorTest, AnAddressOfNoFormIsRefusedAtOnce) {
  TcpConnector connector("nowhere");
  EXPECT_THAT(connector.Connect(In(std::chrono::hours(1))),
              StatusIs(absl::StatusCode::kInvalidArgument, HasSubstr("'nowhere'")));
}

TEST(TcpConnectorTest, StopEndsItForEver) {
  TcpConnector connector(absl::StrCat("127.0.0.1:", FreePort()));
  absl::StatusOr<FileDescriptor> socket;
  std::thread connecting([&] { socket = connector.Connect(In(std::chrono::hours(1))); });
  connector.Stop();
  connecting.join();
  const auto is_stopped = StatusIs(absl::StatusCode::kCancelled, "stopped");
  EXPECT_THAT(socket, is_stopped);
  EXPECT_THAT(connector.Connect(In(std::chrono::hours(1))), is_stopped);
}

}  // namespace
}  // namespace psring
