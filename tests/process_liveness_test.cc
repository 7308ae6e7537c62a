// Processes that are killed, get stuck or never come: whoever it is, the run ends in
// time, everywhere, and says who it was.
#include <arpa/inet.h>
#include <errno.h>
#include <fcntl.h>
#include <netinet/in.h>
#include <signal.h>
#include <string.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <filesystem>
#include <fstream>
#include <iterator>
#include <string>
#include <utility>
#include <vector>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "absl/time/clock.h"
#include "absl/time/time.h"
#include "common/address_sanitizer.h"
#include "common/tcp_socket.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "nlohmann/json.hpp"
#include "tests/end_to_end_test_util.h"
#include "tests/subprocess.h"

namespace psring {
namespace {

namespace fs = std::filesystem;
using testing::AllOf;
using testing::HasSubstr;
using testing::Optional;

class ProcessLivenessTest : public EndToEndTest {
 protected:
  // Kills one process of an arm that is under way; the run must end in time, everywhere,
  // with the name of the dead.
  void KillInTraining(const std::string& arm, const std::string& program, int rank,
                      const std::string& name,
                      const std::vector<std::string>& more = {}) {
    std::vector<std::string> arguments = {"--arm", arm};
    arguments.insert(arguments.end(), more.begin(), more.end());
    const auto psring = Start("run", Config(kEndless), arguments);
    ASSERT_TRUE(psring->WaitForOutput("step ", kPatience)) << psring->err();
    const std::vector<ChildProcess> children = ChildrenOf(psring->pid());
    const pid_t victim = Find(psring->pid(), program, rank);
    ASSERT_NE(victim, 0);
    kill(victim, SIGKILL);
    EXPECT_THAT(psring->Wait(kEndOfRun), Optional(5)) << psring->err();
    EXPECT_THAT(psring->err(),
                HasSubstr(absl::StrCat("arm ", arm, ": ", name, " (process ", victim,
                                       ") was killed by signal 9")));
    for (const ChildProcess& child : children) {
      EXPECT_TRUE(WaitForEnd(child.pid, absl::ZeroDuration())) << child.pid;
    }
    EXPECT_THAT(Summary()["error"].get<std::string>(), HasSubstr(name));
    EXPECT_GT(QueryOne("SELECT count(*) FROM steps"), 0);
    EXPECT_GE(QueryOne(absl::StrCat(
                  "SELECT count(*) FROM events WHERE severity = 'error' AND process = '",
                  name, "' AND text LIKE '%killed by signal 9%'")),
              1);
    EXPECT_EQ(QueryOne("SELECT count(*) FROM processes WHERE outcome IS NULL OR "
                       "outcome = 'ok'"),
              0);
    EXPECT_EQ(QueryOne(absl::StrCat("SELECT count(*) FROM runs WHERE ended_unix_ns > "
                                    "started_unix_ns AND outcome LIKE '%",
                                    name, "%'")),
              1);
  }

  // Where the coordinator of a running arm listens.
  static int CoordinatorPort(pid_t launcher) {
    for (const ChildProcess& child : ChildrenOf(launcher)) {
      for (size_t i = 0; i + 1 < child.arguments.size(); ++i) {
        if (child.arguments[i] == "--coordinator")
          return PortAtEnd(child.arguments[i + 1]);
      }
    }
    return 0;
  }
  // Where a server listens, from its log.
  int PortInLog(const std::string& log) const {
    std::ifstream file(Path(absl::StrCat("out/logs/", log)));
    for (std::string line; std::getline(file, line);) {
      if (absl::StrContains(line, "serves at ")) return PortAtEnd(line);
    }
    return 0;
  }
  static int PortAtEnd(const std::string& text) {
    return std::stoi(text.substr(text.rfind(':') + 1));
  }
  static int64_t ResidentKib(pid_t pid) {
    std::ifstream file(absl::StrCat("/proc/", pid, "/status"));
    for (std::string line; std::getline(file, line);) {
      if (absl::StartsWith(line, "VmRSS:")) return std::stoll(line.substr(6));
    }
    return 0;
  }
};

// Over every transport.
class RingLivenessTest : public ProcessLivenessTest,
                         public testing::WithParamInterface<const char*> {};

TEST_P(RingLivenessTest, AKilledWorkerEndsTheRingAndIsNamed) {
  KillInTraining("ring", "worker", 1, "worker 1",
                 {"--set", absl::StrCat("arms[1].ring.transport=", GetParam())});
}

INSTANTIATE_TEST_SUITE_P(Transports, RingLivenessTest,
                         testing::Values("TCP", "GRPC", "SHARED_MEMORY"),
                         [](const auto& info) { return std::string(info.param); });

TEST_F(ProcessLivenessTest, AKilledWorkerEndsTheServersAndIsNamed) {
  KillInTraining("servers", "worker", 0, "worker 0");
}

TEST_F(ProcessLivenessTest, AKilledServerEndsTheRunAndIsNamed) {
  KillInTraining("servers", "parameter_server", 1, "server 1");
}

// Right after its start, long before it is ready.
TEST_F(ProcessLivenessTest, AProcessKilledWhileTheOthersWaitForItIsNamed) {
  const auto psring = Start("run", Config(kEndless), {"--arm", "ring"});
  ASSERT_TRUE(psring->WaitForOutput("results in", kPatience));
  pid_t victim = 0;
  while (victim == 0) victim = Find(psring->pid(), "worker", 1);
  kill(victim, SIGKILL);
  EXPECT_THAT(psring->Wait(kEndOfRun), Optional(5)) << psring->err();
  EXPECT_THAT(psring->err(), HasSubstr("worker 1 (process"));
}

TEST_F(ProcessLivenessTest, NothingOutlivesAKilledLauncher) {
  const auto psring = Start("run", Config(kEndless), {"--arm", "servers"});
  ASSERT_TRUE(psring->WaitForOutput("step ", kPatience));
  const std::vector<ChildProcess> children = ChildrenOf(psring->pid());
  EXPECT_EQ(children.size(), 4);
  constexpr char kCountSteps[] = "SELECT count(*) FROM steps";
  double recorded = 0;
  while (recorded == 0) recorded = QueryOne(kCountSteps);
  psring->Signal(SIGKILL);
  for (const ChildProcess& child : children) {
    EXPECT_TRUE(WaitForEnd(child.pid, kEndOfRun)) << child.pid;
  }
  EXPECT_GE(QueryOne(kCountSteps), recorded);
  EXPECT_EQ(QueryOne("SELECT count(*) FROM runs WHERE outcome IS NULL"), 1);
}

// Workers that wait in place of computing, longer than they would be given to end, hear
// at once that they must; none is killed.
TEST_F(ProcessLivenessTest, EmulatedComputingIsNotWaitedFor) {
  const auto psring =
      Start("run", Config(kEndless),
            {"--arm", "ring", "--set", "compute.emulated={forward_ms: 6000}", "--set",
             "training.evaluation_interval=0", "--set", "training.target_accuracy=0"});
  ASSERT_TRUE(psring->WaitForOutput("step ", kPatience)) << psring->err();
  psring->Signal(SIGINT);
  EXPECT_THAT(psring->Wait(kEndOfRun), Optional(128 + SIGINT));
  EXPECT_EQ(QueryOne("SELECT count(*) FROM events WHERE text LIKE '%signal 9%'"), 0);
}

TEST_F(ProcessLivenessTest, CtrlCEndsEverythingWithItsSignalsExitCode) {
  const auto psring = Start("run", Config(kEndless), {"--arm", "ring"});
  ASSERT_TRUE(psring->WaitForOutput("step ", kPatience));
  const std::vector<ChildProcess> children = ChildrenOf(psring->pid());
  psring->Signal(SIGINT);
  EXPECT_THAT(psring->Wait(kEndOfRun), Optional(128 + SIGINT));
  EXPECT_THAT(psring->err(), HasSubstr("stopped by Interrupt"));
  for (const ChildProcess& child : children) {
    EXPECT_TRUE(WaitForEnd(child.pid, absl::ZeroDuration())) << child.pid;
  }
}

// While its summary cannot be written, because nobody reads the pipe that is in the way.
TEST_F(ProcessLivenessTest, ASignalAfterTheLastArmTakesNothingFromItsResults) {
  const std::string pipe = Path("out/summary.json.new");
  const auto psring = Start("run", Config(200), {"--arm", "ring"});
  ASSERT_TRUE(psring->WaitForOutput("results in ", kPatience)) << psring->err();
  ASSERT_EQ(mkfifo(pipe.c_str(), 0600), 0) << strerror(errno);
  ASSERT_TRUE(psring->WaitForOutput(", 200 steps,", kPatience)) << psring->err();
  // Who writes the database closes it when there is no arm left.
  const absl::Time deadline = absl::Now() + kPatience;
  while (fs::exists(Path("out/run.db-wal"))) {
    ASSERT_LT(absl::Now(), deadline);
    absl::SleepFor(absl::Milliseconds(10));
  }
  psring->Signal(SIGTERM);
  const FileDescriptor reader(open(pipe.c_str(), O_RDWR | O_NONBLOCK));
  EXPECT_THAT(psring->Wait(kPatience), Optional(128 + SIGTERM)) << psring->err();
  std::string written(1 << 16, '\0');
  const ssize_t size = read(reader.get(), written.data(), written.size());
  written.resize(std::max<ssize_t>(0, size));
  const auto summary = nlohmann::json::parse(written, nullptr, false);
  ASSERT_TRUE(summary.is_object()) << written;
  EXPECT_EQ(summary["arms"].size(), 1);
  EXPECT_THAT(psring->out(), HasSubstr("samples/s"));
  EXPECT_THAT(psring->err(), HasSubstr("psring: stopped by Terminated"));
}

// Connections of a stopped process stand: only its silence tells.
TEST_F(ProcessLivenessTest, AFrozenWorkerIsDeadAndNamed) {
  const auto psring = Start("run", Config(kEndless),
                            {"--arm", "ring", "--set", "liveness.dead_seconds=3"});
  ASSERT_TRUE(psring->WaitForOutput("step ", kPatience));
  const pid_t victim = Find(psring->pid(), "worker", 1);
  kill(victim, SIGSTOP);
  EXPECT_THAT(psring->Wait(kPatience), Optional(5)) << psring->err();
  EXPECT_THAT(psring->err(), AllOf(HasSubstr(absl::StrCat("worker 1 (process ", victim)),
                                   HasSubstr("is dead: it has not been heard of for 3s"),
                                   HasSubstr("last seen at ")));
}

TEST_F(ProcessLivenessTest, AFrozenServerIsDeadAndNamed) {
  const auto psring = Start("run", Config(kEndless),
                            {"--arm", "servers", "--set", "liveness.dead_seconds=3"});
  ASSERT_TRUE(psring->WaitForOutput("step ", kPatience));
  kill(Find(psring->pid(), "parameter_server", 0), SIGSTOP);
  EXPECT_THAT(psring->Wait(kPatience), Optional(5)) << psring->err();
  EXPECT_THAT(psring->err(), AllOf(HasSubstr("server 0 (process"), HasSubstr("is dead")));
}

TEST_F(ProcessLivenessTest, AFrozenCoordinatorEndsItsMembers) {
  const auto psring = Start("run", Config(kEndless),
                            {"--arm", "servers", "--set", "liveness.dead_seconds=3"});
  ASSERT_TRUE(psring->WaitForOutput("step ", kPatience));
  const std::vector<ChildProcess> children = ChildrenOf(psring->pid());
  psring->Signal(SIGSTOP);
  for (const ChildProcess& child : children) {
    EXPECT_TRUE(WaitForEnd(child.pid, kPatience)) << child.pid;
  }
  // Whoever notices first is taken for lost by the next, who cannot ask either.
  for (const char* process : {"worker-0", "worker-1", "server-0", "server-1"}) {
    std::ifstream log(Path(absl::StrCat("out/logs/servers/", process, ".log")));
    const std::string text(std::istreambuf_iterator<char>(log), {});
    EXPECT_THAT(text, HasSubstr("the coordinator at ")) << process;
  }
}

// Alive, but stuck: heartbeats come, progress does not.
TEST_F(ProcessLivenessTest, AStalledWorkerIsNamedWithWhomItHoldsUp) {
  for (const char* arm : {"ring", "servers"}) {
    const auto psring = Start("run", Config(kEndless),
                              {"--arm", arm, "--set", "liveness.stall_seconds=4", "--set",
                               "inject.stall_worker=[{rank: 1 step: 3}]"});
    EXPECT_THAT(psring->Wait(kPatience), Optional(5)) << psring->err();
    EXPECT_THAT(psring->err(),
                AllOf(HasSubstr("injected: worker 1 gets stuck in step 3"),
                      HasSubstr("worker 1 (process"),
                      HasSubstr("has made no progress for 2s (step 3, forward);"),
                      HasSubstr("(step 3, forward) is stalled: no progress for 4s"),
                      HasSubstr("held up: "), HasSubstr("worker 0 (process")));
    fs::remove_all(Path("out"));
  }
}

// Connections that never say who they are cost little and stop nobody.
TEST_F(ProcessLivenessTest, TenThousandSilentConnectionsAreBorne) {
  constexpr int kConnections = 10000;
#ifdef PSRING_ADDRESS_SANITIZER
  constexpr int64_t kQuarantineKib = 256 << 10;  // Of freed memory, which it keeps.
#else
  constexpr int64_t kQuarantineKib = 0;
#endif
  constexpr int64_t kMostGrowthKib = (256 << 10) + kQuarantineKib;
  rlimit files{.rlim_cur = kConnections + 500, .rlim_max = kConnections + 500};
  if (setrlimit(RLIMIT_NOFILE, &files) != 0) {
    GTEST_SKIP() << "this process may not have so many files: " << strerror(errno);
  }
  const auto psring = Start("run", Config(kEndless), {"--arm", "servers"});
  ASSERT_TRUE(psring->WaitForOutput("step ", kPatience));
  const pid_t server = Find(psring->pid(), "parameter_server", 0);
  for (const auto& [pid, port] :
       {std::pair{psring->pid(), CoordinatorPort(psring->pid())},
        {server, PortInLog("servers/server-0.log")}}) {
    const int64_t before = ResidentKib(pid);
    std::vector<int> connections;
    for (int i = 0; i < kConnections; ++i) {
      const int fd = socket(AF_INET, SOCK_STREAM | SOCK_NONBLOCK | SOCK_CLOEXEC, 0);
      ASSERT_GE(fd, 0) << strerror(errno);
      connections.push_back(fd);
      sockaddr_in address{};
      address.sin_family = AF_INET;
      address.sin_port = htons(static_cast<uint16_t>(port));
      address.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
      // Where the queue of the listener is full, the rest stays half open.
      (void)connect(fd, reinterpret_cast<const sockaddr*>(&address), sizeof address);
    }
    // The run goes on under the flood: whoever holds it up for long is given up.
    EXPECT_THAT(psring->Wait(absl::Seconds(3)), testing::Eq(std::nullopt))
        << psring->err();
    EXPECT_LT(ResidentKib(pid) - before, kMostGrowthKib);
    for (const int fd : connections) close(fd);
  }
  psring->Signal(SIGINT);
  EXPECT_THAT(psring->Wait(kPatience), Optional(128 + SIGINT)) << psring->err();
}

TEST_F(ProcessLivenessTest, AnExternalRunThatNobodyJoinsEndsAndNamesWhoIsMissing) {
  const auto psring = Start("run", Config(3),
                            {"--arm", "servers", "--external", "--listen", "127.0.0.1:0",
                             "--rendezvous-timeout", "0.1"});
  EXPECT_THAT(psring->Wait(kEndOfRun), Optional(4));
  EXPECT_THAT(psring->err(), HasSubstr("arm servers: not joined within 100ms: worker 0, "
                                       "worker 1, server 0, server 1\n"));
}

}  // namespace
}  // namespace psring
