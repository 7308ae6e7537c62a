// Real namespaces, links and sockets. Each test runs in a process of its own with a
// private network, or in several.
#include "experiments/hosts/host_network.h"

#include <netinet/in.h>
#include <netinet/tcp.h>
#include <poll.h>
#include <sys/socket.h>
#include <sys/stat.h>

#include <algorithm>
#include <array>
#include <cstddef>
#include <filesystem>
#include <memory>
#include <set>
#include <span>
#include <string>
#include <utility>
#include <vector>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_split.h"
#include "absl/time/clock.h"
#include "common/status_macros.h"
#include "experiments/hosts/launcher_test_util.h"
#include "experiments/hosts/network_namespace.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"

namespace psring {
namespace {

namespace fs = std::filesystem;
using testing::HasSubstr;
using testing::IsEmpty;

constexpr absl::Duration kPatience = absl::Minutes(1);

HostPlan Plan(int workers, int servers, const std::string& second_rack = "") {
  JobSpec spec;
  spec.set_workers(workers);
  spec.set_servers(servers);
  Hosts& hosts = *spec.mutable_experiment()->mutable_cluster()->mutable_hosts();
  hosts.set_link_mbit_s(1000);
  hosts.set_queue_bytes(1 << 20);
  hosts.set_burst_bytes(128 << 10);
  hosts.set_congestion_control(Hosts::CUBIC);
  if (!second_rack.empty()) {
    hosts.mutable_racks()->set_link_mbit_s(500);
    hosts.mutable_racks()->add_second(second_rack);
  }
  return PlanHosts(spec);
}

// A connection between two hosts.
struct Connection {
  FileDescriptor caller;
  FileDescriptor called;
};

absl::StatusOr<FileDescriptor> Listen(const HostNetwork& network, const char* host,
                                      int* port) {
  const HostPlan& plan = network.plan();
  FileDescriptor listener;
  RETURN_IF_ERROR(RunInside(network.NamespaceOf(host), [&]() -> absl::Status {
    ASSIGN_OR_RETURN(listener, ListenTcp(plan.hosts[plan.HostOf(host)].data_address, 0));
    ASSIGN_OR_RETURN(*port, BoundPort(listener));
    return absl::OkStatus();
  }));
  return listener;
}

absl::Status Await(const FileDescriptor& socket, short event) {
  pollfd polled{.fd = socket.get(), .events = event, .revents = 0};
  if (poll(&polled, 1, PollMilliseconds(kPatience)) == 1) return absl::OkStatus();
  return absl::DeadlineExceededError("nothing came");
}

absl::StatusOr<Connection> Connect(const HostNetwork& network, const char* from,
                                   const char* to) {
  const HostPlan& plan = network.plan();
  int port = 0;
  ASSIGN_OR_RETURN(const FileDescriptor listener, Listen(network, to, &port));
  Connection connection;
  RETURN_IF_ERROR(RunInside(network.NamespaceOf(from), [&]() -> absl::Status {
    ASSIGN_OR_RETURN(
        const std::vector<SocketAddress> address,
        ResolveTcp(absl::StrCat(plan.hosts[plan.HostOf(to)].data_address, ":", port)));
    ASSIGN_OR_RETURN(connection.caller, StartConnectTcp(address[0]));
    return absl::OkStatus();
  }));
  RETURN_IF_ERROR(Await(connection.caller, POLLOUT));
  RETURN_IF_ERROR(SocketError(connection.caller));
  RETURN_IF_ERROR(Await(listener, POLLIN));
  ASSIGN_OR_RETURN(AcceptedTcp accepted, AcceptTcp(listener));
  connection.called = std::move(accepted.socket);
  return connection;
}

// Moves so many bytes from the caller to the called, and closes.
absl::Status Transfer(Connection connection, int64_t bytes) {
  std::vector<std::byte> buffer(1 << 16);
  int64_t sent = 0;
  int64_t received = 0;
  while (received < bytes) {
    if (sent < bytes) {
      const auto rest = static_cast<size_t>(bytes - sent);
      ASSIGN_OR_RETURN(const size_t count,
                       SendTcp(connection.caller,
                               std::span(buffer).first(std::min(rest, buffer.size()))));
      sent += static_cast<int64_t>(count);
    } else {
      RETURN_IF_ERROR(Await(connection.called, POLLIN));
    }
    ASSIGN_OR_RETURN(const size_t count, ReceiveTcp(connection.called, buffer));
    received += static_cast<int64_t>(count);
  }
  return absl::OkStatus();
}

LinkReading Find(const HostsReading& reading, const std::string& host, bool out) {
  for (const LinkReading& link : reading.links) {
    if (link.host == host && link.out == out) return link;
  }
  return {.host = "none"};
}

// The next reading in which nothing has moved since the one before.
absl::StatusOr<HostsReading> ReadWhenQuiet(const HostNetwork& network) {
  ASSIGN_OR_RETURN(HostsReading before, network.Read());
  const absl::Time deadline = absl::Now() + kPatience;
  while (absl::Now() < deadline) {
    ASSIGN_OR_RETURN(HostsReading after, network.Read());
    bool quiet = true;
    for (size_t i = 0; i < after.links.size(); ++i) {
      quiet &= after.links[i].bytes == before.links[i].bytes &&
               after.links[i].backlog_bytes == 0;
    }
    if (quiet) return after;
    before = std::move(after);
  }
  return absl::DeadlineExceededError("the links never got quiet");
}

absl::Status Check(bool holds, const std::string& what) {
  return holds ? absl::OkStatus() : absl::FailedPreconditionError(what);
}

std::string CongestionControlOf(const FileDescriptor& socket) {
  std::array<char, 16> name = {};
  socklen_t length = name.size();
  if (getsockopt(socket.get(), IPPROTO_TCP, TCP_CONGESTION, name.data(), &length) != 0) {
    return "unknown";
  }
  return name.data();
}

// "4026531840": the number of a namespace, by an open descriptor or a path.
std::string NumberOf(const std::string& path) {
  struct stat status = {};
  return stat(path.c_str(), &status) == 0 ? absl::StrCat(status.st_ino) : "none";
}

// The processes that are in one of these network namespaces or hold it open.
std::vector<std::string> HoldersOf(const std::set<std::string>& numbers) {
  std::vector<std::string> holders;
  std::error_code gone;
  for (const auto& process : fs::directory_iterator("/proc", gone)) {
    const std::string path = process.path();
    if (numbers.contains(NumberOf(path + "/ns/net"))) holders.push_back(path);
    std::error_code ended;
    for (const auto& open : fs::directory_iterator(path + "/fd", ended)) {
      const std::string target = fs::read_symlink(open.path(), gone).string();
      if (absl::StartsWith(target, "net:") && numbers.contains(NumberOf(open.path()))) {
        holders.push_back(open.path());
      }
    }
  }
  return holders;
}

class HostNetworkTest : public testing::Test {
 protected:
  void SetUp() override {
    const std::string trouble =
        RunLauncher([] { return HostNetwork::Create(Plan(1, 0)).status(); });
    if (absl::StartsWith(trouble, kSkip)) GTEST_SKIP() << trouble;
    ASSERT_EQ(trouble, "ok");
    interfaces_ = InterfacesHere();
  }
  void TearDown() override { EXPECT_EQ(InterfacesHere(), interfaces_); }

  std::set<std::string> interfaces_;
};

TEST_F(HostNetworkTest, HostsReachEachOtherAndAreNotReachedFromOutside) {
  EXPECT_EQ(RunLauncher([]() -> absl::Status {
              ASSIGN_OR_RETURN(const auto network, HostNetwork::Create(Plan(2, 1)));
              for (const auto& [from, to] :
                   {std::pair("worker 0", "worker 1"), std::pair("worker 1", "server 0"),
                    std::pair("server 0", "worker 0")}) {
                ASSIGN_OR_RETURN(Connection connection, Connect(*network, from, to));
                RETURN_IF_ERROR(Transfer(std::move(connection), 1000));
              }
              int port = 0;
              ASSIGN_OR_RETURN(const FileDescriptor listener,
                               Listen(*network, "server 0", &port));
              ASSIGN_OR_RETURN(const auto address,
                               ResolveTcp(absl::StrCat("10.77.0.4:", port)));
              const auto outside = StartConnectTcp(address[0]);
              return Check(!outside.ok() && absl::StrContains(outside.status().message(),
                                                              "unreachable"),
                           "the launcher reaches a host's data address");
            }),
            "ok");
}

TEST_F(HostNetworkTest, CountersEqualWhatWasSent) {
  EXPECT_EQ(
      RunLauncher([]() -> absl::Status {
        constexpr int64_t kBytes = 3'000'000;
        ASSIGN_OR_RETURN(const auto network, HostNetwork::Create(Plan(2, 1)));
        ASSIGN_OR_RETURN(Connection connection,
                         Connect(*network, "worker 1", "server 0"));
        RETURN_IF_ERROR(Transfer(std::move(connection), kBytes));
        ASSIGN_OR_RETURN(const HostsReading reading, ReadWhenQuiet(*network));
        const LinkReading out = Find(reading, "worker 1", true);
        const LinkReading in = Find(reading, "server 0", false);
        // 66 bytes of headers in each packet; 8 more in the first one, and 24 less in
        // ARP's, of which there are few. What was sent again has its frames, too.
        const int64_t rest = out.bytes - kBytes - 66 * out.packets;
        RETURN_IF_ERROR(Check(rest >= -200 && rest <= 200 + 1514 * out.resent,
                              absl::StrCat("unexplained: ", rest, " bytes of ", out.bytes,
                                           ", sent again: ", out.resent)));
        RETURN_IF_ERROR(Check(in.dropped > 0 || in.bytes == out.bytes,
                              absl::StrCat(out.bytes, " bytes out, ", in.bytes, " in")));
        RETURN_IF_ERROR(Check(out.interface_packets <= out.packets &&
                                  out.interface_bytes >= kBytes &&
                                  out.interface_bytes <= out.bytes,
                              absl::StrCat("the interface counts ", out.interface_bytes,
                                           " of ", out.bytes)));
        const LinkReading back = Find(reading, "server 0", true);
        RETURN_IF_ERROR(Check(back.bytes > 0 && back.bytes < kBytes / 10,
                              absl::StrCat("acknowledgements: ", back.bytes)));
        const LinkReading other = Find(reading, "worker 0", true);
        return Check(other.bytes == 0, absl::StrCat("worker 0 sent ", other.bytes));
      }),
      "ok");
}

TEST_F(HostNetworkTest, BothEndsOfAConnectionHaveTheCongestionControl) {
  EXPECT_EQ(RunLauncher([]() -> absl::Status {
              ASSIGN_OR_RETURN(const auto network, HostNetwork::Create(Plan(1, 1)));
              ASSIGN_OR_RETURN(const Connection connection,
                               Connect(*network, "worker 0", "server 0"));
              const std::string caller = CongestionControlOf(connection.caller);
              const std::string called = CongestionControlOf(connection.called);
              return Check(caller == "cubic" && called == "cubic",
                           absl::StrCat(caller, " and ", called));
            }),
            "ok");
}

TEST_F(HostNetworkTest, TheLinkBetweenRacksCarriesWhatCrossesIt) {
  EXPECT_EQ(
      RunLauncher([]() -> absl::Status {
        ASSIGN_OR_RETURN(const auto network, HostNetwork::Create(Plan(3, 0, "worker 2")));
        ASSIGN_OR_RETURN(Connection inside, Connect(*network, "worker 0", "worker 1"));
        RETURN_IF_ERROR(Transfer(std::move(inside), 1'000'000));
        ASSIGN_OR_RETURN(const HostsReading before, ReadWhenQuiet(*network));
        const int64_t crossed = Find(before, "rack 0", true).bytes;
        RETURN_IF_ERROR(
            Check(crossed < 1000, absl::StrCat(crossed, " bytes crossed without need")));
        ASSIGN_OR_RETURN(Connection across, Connect(*network, "worker 0", "worker 2"));
        RETURN_IF_ERROR(Transfer(std::move(across), 1'000'000));
        ASSIGN_OR_RETURN(const HostsReading after, ReadWhenQuiet(*network));
        const int64_t out = Find(after, "rack 0", true).bytes - crossed;
        const int64_t in = Find(after, "rack 0", false).bytes;
        return Check(out > 1'000'000 && in > 0 && in < 100'000,
                     absl::StrCat(out, " bytes out, ", in, " in"));
      }),
      "ok");
}

TEST_F(HostNetworkTest, TheNextNetworkStartsAtZero) {
  EXPECT_EQ(RunLauncher([]() -> absl::Status {
              for (int run = 0; run < 2; ++run) {
                ASSIGN_OR_RETURN(const auto network, HostNetwork::Create(Plan(1, 1)));
                ASSIGN_OR_RETURN(const HostsReading reading, network->Read());
                for (const LinkReading& link : reading.links) {
                  RETURN_IF_ERROR(Check(link.bytes == 0, "a link starts with bytes"));
                }
                ASSIGN_OR_RETURN(Connection connection,
                                 Connect(*network, "worker 0", "server 0"));
                RETURN_IF_ERROR(Transfer(std::move(connection), 1000));
              }
              return absl::OkStatus();
            }),
            "ok");
}

TEST_F(HostNetworkTest, AKilledHolderLeavesNothing) {
  Launcher launcher([](const Launcher::Wires& test) -> absl::Status {
    ASSIGN_OR_RETURN(const auto network, HostNetwork::Create(Plan(2, 0)));
    std::string numbers = NumberOf("/proc/self/ns/net");
    for (const char* host : {"worker 0", "worker 1"}) {
      absl::StrAppend(
          &numbers, " ",
          NumberOf(absl::StrCat("/proc/self/fd/", network->NamespaceOf(host))));
    }
    test.Say(numbers);
    test.Hear();  // Until it is killed.
    return absl::OkStatus();
  });
  const std::set<std::string> numbers = absl::StrSplit(launcher.wires().Hear(), ' ');
  ASSERT_EQ(numbers.size(), 3);
  EXPECT_EQ(HoldersOf(numbers).size(), 3);
  launcher.Kill();
  EXPECT_THAT(HoldersOf(numbers), IsEmpty());
}

TEST_F(HostNetworkTest, TwoAtOnceDoNotMeet) {
  const Launcher idle([](const Launcher::Wires& test) -> absl::Status {
    ASSIGN_OR_RETURN(const auto network, HostNetwork::Create(Plan(2, 0)));
    test.Say("made");
    test.Hear();
    ASSIGN_OR_RETURN(const HostsReading reading, network->Read());
    for (const LinkReading& link : reading.links) {
      RETURN_IF_ERROR(Check(link.bytes == 0, absl::StrCat(link.host, " is not idle")));
    }
    return absl::OkStatus();
  });
  ASSERT_EQ(idle.wires().Hear(), "made");
  // The same addresses and names, beside the other.
  EXPECT_EQ(RunLauncher([]() -> absl::Status {
              ASSIGN_OR_RETURN(const auto network, HostNetwork::Create(Plan(2, 0)));
              ASSIGN_OR_RETURN(Connection connection,
                               Connect(*network, "worker 0", "worker 1"));
              return Transfer(std::move(connection), 100'000);
            }),
            "ok");
  idle.wires().Say("done");
  EXPECT_EQ(idle.wires().Hear(), "ok");
}

TEST_F(HostNetworkTest, ATrafficControlThatFailsIsNamed) {
  EXPECT_THAT(
      RunLauncher([] {
        HostPlan plan = Plan(1, 0);
        plan.congestion_control = "nosuch";
        return HostNetwork::Create(std::move(plan)).status();
      }),
      HasSubstr("cannot emulate hosts: `/sbin/ip -batch -` ended with exit code"));
}

}  // namespace
}  // namespace psring
