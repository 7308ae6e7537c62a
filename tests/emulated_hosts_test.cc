// The psring command with every process on an emulated host of its own.
#include <signal.h>

#include <cstdlib>
#include <filesystem>
#include <memory>
#include <set>
#include <string>
#include <utility>
#include <vector>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "nlohmann/json.hpp"
#include "tests/end_to_end_test_util.h"
#include "tests/subprocess.h"

namespace psring {
namespace {

namespace fs = std::filesystem;
using testing::AllOf;
using testing::Contains;
using testing::Gt;
using testing::HasSubstr;
using testing::IsEmpty;
using testing::Optional;

constexpr int kSkipped = 77;

class EmulatedHostsTest : public EndToEndTest {
 protected:
  void SetUp() override {
    EndToEndTest::SetUp();
    interfaces_ = Interfaces();
  }
  void TearDown() override {
    EXPECT_EQ(Interfaces(), interfaces_);
    EndToEndTest::TearDown();
  }

  static std::set<std::string> Interfaces() {
    std::set<std::string> names;
    for (const auto& entry : fs::directory_iterator("/sys/class/net")) {
      names.insert(entry.path().filename());
    }
    return names;
  }

  std::unique_ptr<Subprocess> StartOnHosts(int steps,
                                           std::vector<std::string> more = {}) {
    const std::vector<std::string> hosts = {"--set", "cluster.servers=1", "--set",
                                            "cluster.hosts={link_mbit_s: 500}"};
    more.insert(more.begin(), hosts.begin(), hosts.end());
    return Start("compare", Config(steps), more);
  }

  std::set<std::string> interfaces_;
};

TEST_F(EmulatedHostsTest, ComparesProvesAndAudits) {
  const auto psring = StartOnHosts(12);
  const auto exit_code = psring->Wait(kPatience);
  if (exit_code == kSkipped) GTEST_SKIP() << psring->err();
  ASSERT_THAT(exit_code, Optional(0)) << psring->err();
  EXPECT_THAT(psring->out(),
              AllOf(HasSubstr("bytes on each link"), HasSubstr("hot-spot factor")));
  const nlohmann::json summary = Summary();
  ASSERT_EQ(summary["arms"].size(), 2);
  EXPECT_EQ(summary["arms"][0]["parameter_digest"],
            summary["arms"][1]["parameter_digest"]);
  for (const nlohmann::json& arm : summary["arms"]) {
    EXPECT_EQ(arm["certificates"]["replica"], "PASS");
    EXPECT_EQ(arm["certificates"]["traffic"], "PASS");
    EXPECT_THAT(arm["hosts"].get<std::string>(), HasSubstr("500 Mbit/s"));
    ASSERT_EQ(arm["endpoints"].size(), arm["name"] == "ring" ? 2 : 3);
    for (const nlohmann::json& endpoint : arm["endpoints"]) {
      for (const char* direction : {"out", "in"}) {
        const nlohmann::json& link = endpoint[absl::StrCat("link_", direction)];
        ASSERT_TRUE(link.is_object()) << arm["name"] << endpoint["name"] << direction;
        EXPECT_EQ(link["payload"], endpoint[absl::StrCat("payload_", direction)]);
        const int64_t kernel = link["kernel"];
        const int64_t explained =
            link["payload"].get<int64_t>() + link["other_payload"].get<int64_t>() +
            link["headers"].get<int64_t>() + link["rest"].get<int64_t>() +
            (link["framing"].is_null() ? 0 : link["framing"].get<int64_t>());
        EXPECT_EQ(kernel, explained);
        EXPECT_GT(kernel, link["payload"].get<int64_t>());
        // A frame of the ring's own connections is known to the byte.
        if (arm["name"] == "ring" && std::string(direction) == "out" &&
            link["resent"] == 0) {
          EXPECT_LT(std::abs(link["rest"].get<int64_t>()), 1000)
              << endpoint["name"] << link.dump();
        }
      }
    }
    const nlohmann::json& usage = arm["link_usage"];
    ASSERT_TRUE(usage.is_object());
    EXPECT_GE(usage["hot_spot_factor"].get<double>(), 1);
    const nlohmann::json& busiest = usage["links"][usage["busiest"].get<size_t>()];
    if (arm["name"] == "servers") {
      EXPECT_EQ(busiest["host"], "server 0");
    }
  }
  // Every process and nothing else has two links, each read at least twice.
  EXPECT_THAT(Query("SELECT count(*) FROM (SELECT host, direction FROM link_samples "
                    "WHERE run = 1 GROUP BY host, direction)"),
              Contains(6));
  EXPECT_THAT(Query("SELECT min(n) FROM (SELECT count(*) AS n FROM link_samples GROUP BY "
                    "run, host, direction)"),
              Contains(Gt(1)));
  EXPECT_EQ(
      QueryOne("SELECT count(*) FROM link_samples WHERE direction = 'in' AND resent "
               "IS NOT NULL"),
      0);
}

TEST_F(EmulatedHostsTest, AKilledLauncherLeavesNothing) {
  const auto psring = StartOnHosts(kEndless);
  if (!psring->WaitForOutput("step ", kPatience)) {
    const auto exit_code = psring->Wait(kPatience);
    if (exit_code == kSkipped) GTEST_SKIP() << psring->err();
    FAIL() << psring->err();
  }
  const std::vector<ChildProcess> children = ChildrenOf(psring->pid());
  EXPECT_THAT(children, testing::SizeIs(testing::Ge(3)));
  // Each has a network of its own.
  std::set<std::string> networks;
  for (const ChildProcess& child : children) {
    if (Find(psring->pid(), "worker", 0) == child.pid ||
        Find(psring->pid(), "worker", 1) == child.pid) {
      networks.insert(
          fs::read_symlink(absl::StrCat("/proc/", child.pid, "/ns/net")).string());
    }
  }
  EXPECT_THAT(networks, testing::SizeIs(2));
  psring->Signal(SIGKILL);
  for (const ChildProcess& child : children) {
    EXPECT_TRUE(WaitForEnd(child.pid, kEndOfRun)) << child.arguments[0];
  }
  std::error_code gone;
  for (const auto& process : fs::directory_iterator("/proc")) {
    const fs::path link = process.path() / "ns/net";
    EXPECT_FALSE(networks.contains(fs::read_symlink(link, gone).string())) << link;
  }
}

TEST_F(EmulatedHostsTest, WhatCannotBeOnHostsIsRefused) {
  for (const auto& [more, error] :
       std::vector<std::pair<std::vector<std::string>, std::string>>{
           {{"--set", "arms[1].ring.transport=SHARED_MEMORY"},
            "arms[1].ring.transport: SHARED_MEMORY is for processes of one host"},
           {{"--set", "cluster.hosts.link_mbit_s=0"},
            "cluster.hosts.link_mbit_s: is 0; allowed: 1 to 100,000"}}) {
    const auto psring = StartOnHosts(3, more);
    EXPECT_THAT(psring->Wait(kPatience), Optional(2));
    EXPECT_THAT(psring->err(), HasSubstr(error));
  }
  const auto psring = Start("run", Config(3),
                            {"--arm", "ring", "--external", "--listen", "127.0.0.1:0",
                             "--set", "cluster.hosts={link_mbit_s: 500}"});
  EXPECT_THAT(psring->Wait(kPatience), Optional(2));
  EXPECT_THAT(psring->err(), HasSubstr("--external: the arm has cluster.hosts"));
  EXPECT_THAT(psring->out(), IsEmpty());
  EXPECT_FALSE(fs::exists(Path("out")));
}

}  // namespace
}  // namespace psring
