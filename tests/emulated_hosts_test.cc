// The psring command with every process on an emulated host of its own.
#include <signal.h>

#include <algorithm>
#include <cstdlib>
#include <filesystem>
#include <fstream>
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
using testing::AnyOf;
using testing::Contains;
using testing::ContainsRegex;
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
              AllOf(HasSubstr("bytes on each link"), HasSubstr("hot-spot factor"),
                    ContainsRegex("\nverdict: [^\n]+\n$")));
  const nlohmann::json summary = Summary();
  ASSERT_EQ(summary["arms"].size(), 2);
  EXPECT_EQ(summary["arms"][0]["parameter_digest"],
            summary["arms"][1]["parameter_digest"]);
  for (const nlohmann::json& arm : summary["arms"]) {
    EXPECT_EQ(arm["certificates"]["replica"], "PASS");
    EXPECT_EQ(arm["certificates"]["traffic"], "PASS");
    EXPECT_THAT(arm["hosts"].get<std::string>(), HasSubstr("500 Mbit/s"));
    ASSERT_EQ(arm["endpoints"].size(), arm["name"] == "ring" ? 2 : 3);
    int64_t resent = 0;
    for (const nlohmann::json& endpoint : arm["endpoints"]) {
      resent += endpoint["link_out"]["resent"].get<int64_t>();
    }
    for (const nlohmann::json& endpoint : arm["endpoints"]) {
      for (const char* direction : {"out", "in"}) {
        const nlohmann::json& link = endpoint[absl::StrCat("link_", direction)];
        ASSERT_TRUE(link.is_object()) << arm["name"] << endpoint["name"] << direction;
        EXPECT_EQ(link["payload"], endpoint[absl::StrCat("payload_", direction)]);
        const int64_t kernel = link["kernel"];
        const int64_t explained =
            link["payload"].get<int64_t>() + link["other_payload"].get<int64_t>() +
            link["headers"].get<int64_t>() + link["rest"].get<int64_t>() +
            link["framing"].get<int64_t>();
        EXPECT_EQ(kernel, explained);
        EXPECT_GT(kernel, link["payload"].get<int64_t>());
        EXPECT_GT(link["framing"].get<int64_t>(), 0);
        // Whatever connections have carried is known to the byte; after losses, both ends
        // have options in their packets.
        if (resent == 0) {
          EXPECT_LT(std::abs(link["rest"].get<int64_t>()), 1000)
              << arm["name"] << endpoint["name"] << link.dump();
        }
      }
    }
    const nlohmann::json& usage = arm["link_usage"];
    ASSERT_TRUE(usage.is_object());
    EXPECT_GE(usage["hot_spot_factor"].get<double>(), 1);
    // How busy this machine is decides the rest.
    EXPECT_THAT(arm["validity"]["verdict"], AnyOf("valid", "void", "cannot be told"));
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
  // All links are of one kind.
  ASSERT_EQ(summary["probed_links"].size(), 1);
  const nlohmann::json& probed = summary["probed_links"][0];
  EXPECT_EQ(probed["alike"], 3);
  EXPECT_GT(probed["out_bytes_s"].get<double>(), 0);
  EXPECT_EQ(QueryOne("SELECT out_bytes_s FROM probed_links"), probed["out_bytes_s"]);
  for (const nlohmann::json& arm : summary["arms"]) {
    EXPECT_EQ(arm["link_usage"]["floor_ms"].is_null(), probed["void"].get<bool>());
    EXPECT_EQ(arm["link_usage"]["over_floor"].is_null(), probed["void"].get<bool>());
  }
}

TEST_F(EmulatedHostsTest, ProbesLinksAndForecastsArms) {
  const std::string config = Config(3);
  const auto psring = Start("probe", config,
                            {"--set", "cluster.servers=1", "--set",
                             "cluster.hosts={link_mbit_s: 100 links { host: \"server 0\" "
                             "send_mbit_s: 50 }}"});
  const auto exit_code = psring->Wait(kPatience);
  if (exit_code == kSkipped) GTEST_SKIP() << psring->err();
  ASSERT_THAT(exit_code, Optional(0)) << psring->err();
  EXPECT_THAT(psring->out(),
              AllOf(HasSubstr("worker 0 (2 alike)"), HasSubstr("payload Mbit/s out"),
                    HasSubstr("a ring's rank adds"),
                    HasSubstr("servers: a server sums and applies"),
                    HasSubstr("floor ms"), HasSubstr("model ms")));
  std::ifstream file(Path("out/probe.json"));
  const nlohmann::json probe = nlohmann::json::parse(file);
  ASSERT_EQ(probe["probed_links"].size(), 2);
  for (const nlohmann::json& link : probe["probed_links"]) {
    EXPECT_GT(link["out_bytes_s"].get<double>(), 0);
    EXPECT_GT(link["in_bytes_s"].get<double>(), 0);
    // No more than the line carries, though a late start of the clock makes it look more.
    EXPECT_LT(link["out_bytes_s"].get<double>(),
              1.5 * link["send_bit_s"].get<double>() / 8);
  }
  ASSERT_EQ(probe["arms"].size(), 2);
  EXPECT_GT(probe["arms"][0]["apply_bytes_s"].get<double>(), 0);
  for (const nlohmann::json& arm : probe["arms"]) {
    const nlohmann::json& parts = arm["model_ms"];
    if (parts.is_null()) {  // Where the machine is too busy to probe.
      EXPECT_THAT(psring->out(), HasSubstr("void"));
      continue;
    }
    EXPECT_GT(parts["transfer"].get<double>(), 0);
    EXPECT_NEAR(parts["total"].get<double>(),
                parts["latency"].get<double>() + parts["transfer"].get<double>() +
                    parts["arithmetic"].get<double>(),
                1e-6);
  }
}

// Two workers with a server each beside them. Half of what they exchange stays on their
// host: the kernel must not have seen it on the link, and must have seen the rest.
TEST_F(EmulatedHostsTest, WhatColocatedProcessesExchangeIsOnNoLink) {
  const auto psring = StartOnHosts(12, {"--set", "cluster.servers=2", "--set",
                                        "cluster.hosts.colocated_servers=true"});
  const auto exit_code = psring->Wait(kPatience);
  if (exit_code == kSkipped) GTEST_SKIP() << psring->err();
  ASSERT_THAT(exit_code, Optional(0)) << psring->err();
  EXPECT_THAT(psring->out(), AllOf(HasSubstr("servers / worker 1 + server 1 out"),
                                   HasSubstr("ring / worker 1 out")));
  const nlohmann::json summary = Summary();
  const nlohmann::json& servers = summary["arms"][0];
  const nlohmann::json& ring = summary["arms"][1];
  EXPECT_EQ(servers["parameter_digest"], ring["parameter_digest"]);
  for (const char* certificate : {"replica", "traffic", "consistency"}) {
    EXPECT_EQ(servers["certificates"][certificate], "PASS");
  }
  const nlohmann::json& endpoints = servers["endpoints"];
  ASSERT_EQ(endpoints.size(), 4);
  for (int rank = 0; rank < 2; ++rank) {
    const nlohmann::json& worker = endpoints[rank];
    const nlohmann::json& server = endpoints[2 + rank];
    EXPECT_EQ(server["host"], worker["name"]);
    for (const char* kind : {"payload", "other"}) {
      for (const auto& [out, in] : {std::pair{&worker, &server}, {&server, &worker}}) {
        EXPECT_EQ((*out)[absl::StrCat("local_", kind, "_out")],
                  (*in)[absl::StrCat("local_", kind, "_in")]);
      }
    }
    for (const std::string direction : {"out", "in"}) {
      EXPECT_TRUE(server["link_" + direction].is_null());
      const nlohmann::json& link = worker["link_" + direction];
      ASSERT_TRUE(link.is_object());
      const auto both = [&](const std::string& part) {
        const std::string field = absl::StrCat(part, "_", direction);
        return worker[field].get<int64_t>() + server[field].get<int64_t>();
      };
      const int64_t local = both("local_payload");
      EXPECT_GT(local, 0);
      const int64_t payload = link["payload"];
      EXPECT_EQ(payload, link["formula"].get<int64_t>());
      EXPECT_EQ(payload, both("payload") - local);
      // As a rank of a ring sends, but for how buckets are cut.
      const int64_t of_ring = ring["endpoints"][rank]["payload_" + direction];
      EXPECT_NEAR(static_cast<double>(payload), static_cast<double>(of_ring),
                  0.01 * static_cast<double>(of_ring));
      const int64_t on_link = payload + link["other_payload"].get<int64_t>();
      EXPECT_GE(link["kernel"].get<int64_t>(), on_link);
      EXPECT_LT(link["kernel"].get<int64_t>(), on_link + local / 2);
    }
  }
  EXPECT_THAT(servers["link_usage"]["links"], testing::SizeIs(4));
  EXPECT_EQ(QueryOne("SELECT count(DISTINCT host) FROM link_samples WHERE run = 1"), 2);
}

// From worker to worker or server and back, over two links: 7 + 5 ms each way.
TEST_F(EmulatedHostsTest, ADelayIsInEveryStepAndChangesNothingElse) {
  const auto psring =
      StartOnHosts(6, {"--set", "cluster.hosts.delay_ms=7", "--set",
                       "cluster.hosts.links=[{host: 'worker 1' delay_ms: 5}, "
                       "{host: 'server 0' delay_ms: 5}]"});
  const auto exit_code = psring->Wait(kPatience);
  if (exit_code == kSkipped) GTEST_SKIP() << psring->err();
  ASSERT_THAT(exit_code, Optional(0)) << psring->err();
  const nlohmann::json summary = Summary();
  ASSERT_EQ(summary["arms"].size(), 2);
  EXPECT_EQ(summary["arms"][0]["parameter_digest"],
            summary["arms"][1]["parameter_digest"]);
  for (const nlohmann::json& arm : summary["arms"]) {
    EXPECT_EQ(arm["certificates"]["replica"], "PASS");
    EXPECT_EQ(arm["certificates"]["traffic"], "PASS");
    EXPECT_THAT(arm["hosts"].get<std::string>(),
                HasSubstr("7 ms delay of each link (worker 1: 5 ms; server 0: 5 ms), "
                          "added by psring's transports"));
  }
  EXPECT_GE(QueryOne("SELECT min(exposed_ns) FROM steps WHERE run = 1 AND rank = 0"),
            24e6);
  EXPECT_GE(QueryOne("SELECT min(exposed_ns) FROM steps WHERE run = 1 AND rank = 1"),
            20e6);
  EXPECT_GE(QueryOne("SELECT min(exposed_ns) FROM steps WHERE run = 2"), 24e6);
  // Whoever is late, once the last has launched its bytes are on their way for 12 ms or
  // more; clocks are aligned better than to 2.
  EXPECT_GE(QueryOne("SELECT min(on_wire_ns + working_ns) FROM waits"), 10e6);
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

TEST_F(EmulatedHostsTest, WithoutHostsTheLoopbackInterfaceIsProbed) {
  const auto psring = Start("probe", Config(3));
  ASSERT_THAT(psring->Wait(kPatience), Optional(0)) << psring->err();
  EXPECT_THAT(psring->out(), AllOf(HasSubstr("loopback"),
                                   HasSubstr("note: the experiment has no hosts")));
}

TEST_F(EmulatedHostsTest, AProbeOfWhatIsWrongIsOneLine) {
  for (const auto& [value, error] : std::vector<std::pair<std::string, std::string>>{
           {"cluster.hosts={link_mbit_s: 0.5}", "cluster.hosts.link_mbit_s: is 0.5"},
           {"cluster.nothing=1", "cluster.nothing"}}) {
    const auto psring = Start("probe", Config(3), {"--set", value});
    EXPECT_THAT(psring->Wait(kPatience), Optional(2));
    EXPECT_THAT(psring->err(), HasSubstr(error));
    EXPECT_EQ(std::count(psring->err().begin(), psring->err().end(), '\n'), 1)
        << psring->err();
    EXPECT_THAT(psring->out(), IsEmpty());
    EXPECT_FALSE(fs::exists(Path("out")));
  }
}

TEST_F(EmulatedHostsTest, WhatCannotBeOnHostsIsRefused) {
  for (const auto& [more, error] :
       std::vector<std::pair<std::vector<std::string>, std::string>>{
           {{"--set", "cluster.hosts.delay_ms=20000"},
            "cluster.hosts.delay_ms: is 20000; allowed: 0 to 10,000"},
           {{"--set", "arms[1].ring.transport=SHARED_MEMORY"},
            "arms[1].ring.transport: SHARED_MEMORY is for processes of one host"},
           {{"--set", "cluster.hosts.link_mbit_s=0"},
            "cluster.hosts.link_mbit_s: is 0; allowed: 1 to 100,000"},
           {{"--set", "cluster.hosts.colocated_servers=true", "--set",
             "cluster.servers=3"},
            "cluster.hosts.colocated_servers: arm 'servers' has 3 servers for the "
            "hosts of 2 workers; allowed: at most as many servers as workers"}}) {
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
