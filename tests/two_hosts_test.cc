// Processes started by hand on two hosts, as on a cluster: psring and all processes but
// worker 1 on host 0, worker 1 on host 1. The hosts are network namespaces.
#include <signal.h>
#include <stdlib.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <filesystem>
#include <fstream>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "absl/strings/str_join.h"
#include "absl/strings/str_split.h"
#include "absl/strings/string_view.h"
#include "absl/time/clock.h"
#include "absl/time/time.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "nlohmann/json.hpp"
#include "tests/subprocess.h"

namespace psring {
namespace {

namespace fs = std::filesystem;
using testing::HasSubstr;
using testing::Optional;

// For what takes as long as the machine needs; nothing here is meant to take it.
constexpr absl::Duration kPatience = absl::Minutes(2);
// The promise: whoever dies, every process has ended by then.
constexpr absl::Duration kEndOfRun = absl::Seconds(10);
// On a fresh host nobody else listens.
constexpr int kPort = 7000;

constexpr char kConfig[] = R"(
name: "two_hosts"
model { mlp { hidden: [16] } }
data { fashion_mnist {} }
training {
  steps: %d
  global_batch: 60
  optimizer { sgd { learning_rate: 0.1 momentum: 0.9 } }
  seed: 1
  digest_interval: 1
}
cluster { workers: 2 servers: 1 }
buckets { cap_bytes: 20000 first_cap_bytes: 1000 }
liveness { dead_seconds: 4 }
arms { name: "servers" parameter_server {} }
arms { name: "ring" ring {} }
)";
// Of an arm that is not meant to come to its end.
constexpr int kEndless = 100000000;

// Empty, or what the command complained of.
std::string Ip(std::vector<std::string> arguments) {
  arguments.insert(arguments.begin(), "/sbin/ip");
  Subprocess ip(arguments);
  const std::optional<int> exit_code = ip.Wait(kPatience);
  if (exit_code == 0) return "";
  return absl::StrCat("`", absl::StrJoin(arguments, " "), "` ended with exit code ",
                      exit_code.value_or(-1), ": ", ip.err());
}

// Two network namespaces with a cable between them, gone with this object. Both ends of
// the cable are born inside; nothing outside changes.
class TwoHosts {
 public:
  TwoHosts() {
    for (size_t host = 0; host < names_.size(); ++host) {
      names_[host] = absl::StrCat("psring-", getpid(), "-", host);
    }
  }
  ~TwoHosts() {
    for (int host = 0; host < made_; ++host) {
      EXPECT_EQ(Ip({"netns", "del", names_[host]}), "");
    }
  }
  TwoHosts(const TwoHosts&) = delete;
  TwoHosts& operator=(const TwoHosts&) = delete;

  // Why this system has no namespaces for us, or nothing.
  std::string Make() {
    for (const std::string& name : names_) {
      if (std::string trouble = Ip({"netns", "add", name}); !trouble.empty()) {
        return trouble;
      }
      ++made_;
    }
    return "";
  }

  void Connect() {
    ASSERT_EQ(Ip({"-n", names_[0], "link", "add", "eth0", "type", "veth", "peer", "name",
                  "eth0", "netns", names_[1]}),
              "");
    for (int host = 0; host < made_; ++host) {
      for (const char* device : {"lo", "eth0"}) {
        ASSERT_EQ(Ip({"-n", names_[host], "link", "set", device, "up"}), "");
      }
      ASSERT_EQ(Ip({"-n", names_[host], "address", "add",
                    absl::StrCat(Address(host, false), "/24"), "dev", "eth0"}),
                "");
      // Without duplicate address detection: usable at once.
      ASSERT_EQ(Ip({"-n", names_[host], "address", "add",
                    absl::StrCat(Address(host, true), "/64"), "dev", "eth0", "nodad"}),
                "");
    }
  }

  // Pulls the cable: nothing is closed, nothing arrives any more.
  void Cut() { ASSERT_EQ(Ip({"-n", names_[1], "link", "set", "eth0", "down"}), ""); }
  void Mend() { ASSERT_EQ(Ip({"-n", names_[1], "link", "set", "eth0", "up"}), ""); }

  static std::string Address(int host, bool ipv6) {
    return absl::StrCat(ipv6 ? "fd77::" : "10.77.0.", host + 1);
  }

  // The process is the program itself: `ip` has replaced itself by it.
  std::unique_ptr<Subprocess> Start(int host, std::vector<std::string> arguments) const {
    const std::vector<std::string> ip = {"/sbin/ip", "netns", "exec", names_[host]};
    arguments.insert(arguments.begin(), ip.begin(), ip.end());
    return std::make_unique<Subprocess>(arguments);
  }

 private:
  std::array<std::string, 2> names_;
  int made_ = 0;
};

class TwoHostsTest : public testing::Test {
 protected:
  void SetUp() override {
    std::string pattern = absl::StrCat(testing::TempDir(), "/two_hosts_XXXXXX");
    ASSERT_NE(mkdtemp(pattern.data()), nullptr);
    folder_ = pattern;
    if (const std::string trouble = hosts_.Make(); !trouble.empty()) {
      GTEST_SKIP() << "no network namespaces here: " << trouble;
    }
    ASSERT_NO_FATAL_FAILURE(hosts_.Connect());
  }
  void TearDown() override {
    members_.clear();
    psring_.reset();
    fs::remove_all(folder_);
  }

  // Starts psring on host 0, then what it says is to be started, each on its host.
  void Start(const std::string& arm, int steps, int timeout_seconds = 60,
             bool with_worker_1 = true) {
    const std::string config = absl::StrCat(folder_, "/config.textproto");
    std::ofstream(config) << absl::StrFormat(kConfig, steps);
    out_ = absl::StrCat(folder_, "/", arm, ipv6_ ? "-ipv6" : "");
    std::string host = TwoHosts::Address(0, ipv6_);
    if (ipv6_) host = absl::StrCat("[", host, "]");
    const std::string command_line = absl::StrFormat(
        "experiments/psring run %s --arm %s --out %s --external --listen %s:%d "
        "--job two-hosts --rendezvous-timeout %d",
        config, arm, out_, host, kPort, timeout_seconds);
    psring_ = hosts_.Start(0, absl::StrSplit(command_line, ' '));
    const std::string end_of_last_command =
        absl::StrCat("--rank 1 --rendezvous-timeout ", timeout_seconds,
                     " --bind ADDRESS --advertise ADDRESS\n");
    ASSERT_TRUE(psring_->WaitForOutput(end_of_last_command, kPatience)) << psring_->err();

    members_.clear();
    for (const absl::string_view line : absl::StrSplit(psring_->err(), '\n')) {
      if (!absl::StrContains(line, "--coordinator")) continue;
      std::vector<std::string> command = absl::StrSplit(line, ' ', absl::SkipEmpty());
      const auto rank = std::find(command.begin(), command.end(), "--rank");
      ASSERT_LT(rank, command.end() - 1) << line;
      const std::string name = absl::StrCat(
          absl::EndsWith(command[0], "worker") ? "worker " : "server ", *(rank + 1));
      const int on = name == "worker 1" ? 1 : 0;
      if (on == 1 && !with_worker_1) continue;
      std::replace(command.begin(), command.end(), std::string("ADDRESS"),
                   TwoHosts::Address(on, ipv6_));
      members_[name] = hosts_.Start(on, command);
    }
  }

  // Runs an arm, all of whose processes must end well; its results.
  nlohmann::json RunToItsEnd(const std::string& arm) {
    Start(arm, /*steps=*/5);
    if (HasFatalFailure()) return {};
    EXPECT_THAT(psring_->Wait(kPatience), Optional(0)) << psring_->err();
    EXPECT_EQ(members_.size(), arm == "ring" ? 2 : 3);
    for (const auto& [name, member] : members_) {
      EXPECT_THAT(member->Wait(kPatience), Optional(0)) << name << ": " << member->err();
    }
    std::ifstream file(absl::StrCat(out_, "/summary.json"));
    const nlohmann::json result = nlohmann::json::parse(file)["arms"][0];
    EXPECT_TRUE(result["parameter_digest"].is_string());
    EXPECT_EQ(result["certificates"]["replica"], "PASS");
    EXPECT_EQ(result["certificates"]["traffic"], "PASS");
    return result;
  }

  // Everyone but worker 1 ends in time, with that exit code and a message that has it.
  void ExpectAllEnd(int exit_code, const std::string& message) {
    const absl::Time deadline = absl::Now() + kEndOfRun;
    EXPECT_THAT(psring_->Wait(kEndOfRun), Optional(exit_code));
    EXPECT_THAT(psring_->err(), HasSubstr(message));
    for (const auto& [name, member] : members_) {
      if (name == "worker 1") continue;
      EXPECT_THAT(member->Wait(deadline - absl::Now()), Optional(exit_code)) << name;
      EXPECT_THAT(member->err(), HasSubstr(message)) << name;
    }
  }

  void KillWorker1InTraining(const std::string& arm) {
    ASSERT_NO_FATAL_FAILURE(Start(arm, kEndless));
    ASSERT_TRUE(psring_->WaitForOutput("step ", kPatience)) << psring_->err();
    members_.at("worker 1")->Signal(SIGKILL);
    ExpectAllEnd(5, absl::StrCat("worker 1 (process ", members_.at("worker 1")->pid()));
  }

  void LeaveOutWorker1(const std::string& arm) {
    ASSERT_NO_FATAL_FAILURE(Start(arm, kEndless, /*timeout_seconds=*/2,
                                  /*with_worker_1=*/false));
    ExpectAllEnd(4, "worker 1");
  }

  std::string folder_;
  TwoHosts hosts_;
  bool ipv6_ = false;
  std::string out_;  // Of the run last started, as are the processes.
  std::unique_ptr<Subprocess> psring_;
  std::map<std::string, std::unique_ptr<Subprocess>> members_;  // By name: "worker 0".
};

TEST_F(TwoHostsTest, BothArmsEndInTheSameBits) {
  EXPECT_EQ(RunToItsEnd("ring")["parameter_digest"],
            RunToItsEnd("servers")["parameter_digest"]);
}

TEST_F(TwoHostsTest, BothArmsRunOverIpv6) {
  ipv6_ = true;
  EXPECT_EQ(RunToItsEnd("ring")["parameter_digest"],
            RunToItsEnd("servers")["parameter_digest"]);
}

TEST_F(TwoHostsTest, AKilledWorkerOfARingEndsBothHosts) { KillWorker1InTraining("ring"); }

TEST_F(TwoHostsTest, AKilledWorkerOfServersEndsBothHosts) {
  KillWorker1InTraining("servers");
}

TEST_F(TwoHostsTest, ARingDoesNotWaitForeverForAWorker) { LeaveOutWorker1("ring"); }

TEST_F(TwoHostsTest, ServersDoNotWaitForeverForAWorker) { LeaveOutWorker1("servers"); }

// Half-open connections: both hosts notice by silence alone, each what it can see.
TEST_F(TwoHostsTest, ACutCableEndsBothHosts) {
  for (const char* arm : {"ring", "servers"}) {
    ASSERT_NO_FATAL_FAILURE(Start(arm, kEndless));
    ASSERT_TRUE(psring_->WaitForOutput("step ", kPatience)) << psring_->err();
    ASSERT_NO_FATAL_FAILURE(hosts_.Cut());
    EXPECT_THAT(psring_->Wait(kPatience), Optional(5));
    EXPECT_THAT(psring_->err(),
                HasSubstr(absl::StrCat("worker 1 (process ",
                                       members_.at("worker 1")->pid(), " on ")));
    EXPECT_THAT(psring_->err(), HasSubstr("is dead: it has not been heard of for 4s"));
    for (const auto& [name, member] : members_) {
      EXPECT_THAT(member->Wait(kPatience), Optional(5)) << name << ": " << member->err();
    }
    EXPECT_THAT(members_.at("worker 1")->err(), HasSubstr("the coordinator at "));
    ASSERT_NO_FATAL_FAILURE(hosts_.Mend());
  }
}

// Nobody started these processes who could end them, yet they do not stay.
TEST_F(TwoHostsTest, AKilledCoordinatorEndsBothHosts) {
  ASSERT_NO_FATAL_FAILURE(Start("servers", kEndless));
  ASSERT_TRUE(psring_->WaitForOutput("step ", kPatience)) << psring_->err();
  psring_->Signal(SIGKILL);
  const absl::Time deadline = absl::Now() + kEndOfRun;
  for (const auto& [name, member] : members_) {
    EXPECT_THAT(member->Wait(deadline - absl::Now()), Optional(5)) << name;
    EXPECT_THAT(member->err(), HasSubstr("lost the coordinator at 10.77.0.1:7000"))
        << name;
  }
}

}  // namespace
}  // namespace psring
