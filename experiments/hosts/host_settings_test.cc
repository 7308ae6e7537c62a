#include "experiments/hosts/host_settings.h"

#include <string>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "absl/time/time.h"
#include "common/status_matchers.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"

namespace psring {
namespace {

Hosts Parse(const std::string& text, FieldOrigins* origins) {
  Experiment experiment;
  EXPECT_OK(
      ReadText(absl::StrCat("cluster { hosts {\n", text, "} }"), &experiment, origins))
      << text;
  return experiment.cluster().hosts();
}

// Of arms with up to 2 workers and 1 server.
absl::Status Check(const std::string& text) {
  FieldOrigins origins("file");
  const Hosts hosts = Parse(text, &origins);
  return CheckHosts(hosts, /*workers=*/2, /*servers=*/1, /*stall=*/absl::Seconds(30),
                    "cluster.hosts", origins);
}

Hosts Filled(const std::string& text) {
  FieldOrigins origins("file");
  Hosts hosts = Parse(text, &origins);
  FillHostDefaults(&hosts);
  return hosts;
}

TEST(HostSettingsTest, Accepts) {
  for (const char* text :
       {"link_mbit_s: 1", "link_mbit_s: 100000", "link_mbit_s: 12.5",
        "link_mbit_s: 100 queue_bytes: 2000 burst_bytes: 2000 congestion_control: BBR",
        "link_mbit_s: 100 links { host: 'worker 1' send_mbit_s: 10 }"
        " links { host: 'server 0' receive_mbit_s: 10 }",
        "link_mbit_s: 100 racks { link_mbit_s: 50 second: ['worker 1', 'server 0'] }",
        "link_mbit_s: 100 colocated_servers: true links { host: 'worker 1' }",
        "link_mbit_s: 100 delay_ms: 3750 links { host: 'worker 1' delay_ms: 0 }"}) {
    EXPECT_OK(Check(text)) << text;
  }
}

TEST(HostSettingsTest, OneLinePerMistake) {
  const std::string hosts = "\"worker 0\" to \"worker 1\", \"server 0\" to \"server 0\"";
  const std::string workers = "\"worker 0\" to \"worker 1\"";
  const std::vector<std::pair<std::string, std::string>> mistakes = {
      {"", "file:1: cluster.hosts.link_mbit_s: missing; allowed: 1 to 100,000"},
      {"link_mbit_s: 0",
       "file:2: cluster.hosts.link_mbit_s: is 0; allowed: 1 to 100,000"},
      {"link_mbit_s: nan",
       "file:2: cluster.hosts.link_mbit_s: is nan; allowed: 1 to 100,000"},
      {"link_mbit_s: 10\nqueue_bytes: 1999",
       "file:3: cluster.hosts.queue_bytes: is 1999; allowed: 2000 to 1073741824"},
      {"link_mbit_s: 10\nburst_bytes: 0",
       "file:3: cluster.hosts.burst_bytes: is 0; allowed: 2000 to 16777216"},
      {"link_mbit_s: 10\ncongestion_control: 9",
       "file:3: cluster.hosts.congestion_control: is 9; allowed: RENO, CUBIC, BBR"},
      {"link_mbit_s: 10\nlinks { host: 'worker 2' }",
       absl::StrCat("file:3: cluster.hosts.links[0].host: no arm has a host 'worker 2'; "
                    "allowed: ",
                    hosts)},
      {"link_mbit_s: 10\nlinks { host: 'worker 01' }",
       absl::StrCat("file:3: cluster.hosts.links[0].host: no arm has a host 'worker "
                    "01'; allowed: ",
                    hosts)},
      {"link_mbit_s: 10\nlinks { send_mbit_s: 1 }",
       absl::StrCat("file:3: cluster.hosts.links[0].host: missing; allowed: ", hosts)},
      {"link_mbit_s: 10\nlinks { host: 'worker 1' }\nlinks { host: 'worker 1' }",
       "file:4: cluster.hosts.links[1].host: 'worker 1' is named twice; allowed: each "
       "host once"},
      {"link_mbit_s: 10\nlinks { host: 'worker 1' send_mbit_s: -1 }",
       "file:3: cluster.hosts.links[0].send_mbit_s: is -1; allowed: 1 to 100,000"},
      {"link_mbit_s: 10\ndelay_ms: -1",
       "file:3: cluster.hosts.delay_ms: is -1; allowed: 0 to 10,000"},
      {"link_mbit_s: 10\nlinks { host: 'worker 1' delay_ms: nan }",
       "file:3: cluster.hosts.links[0].delay_ms: is nan; allowed: 0 to 10,000"},
      {"link_mbit_s: 10\ndelay_ms: 3751",
       "file:3: cluster.hosts.delay_ms: is 3751, and 2 ways over two such links take "
       "15.004s; allowed: 0 to 10,000, with which they take at most half of "
       "liveness.stall_seconds, 15s"},
      {"link_mbit_s: 10\nracks { second: 'worker 1' }",
       "file:3: cluster.hosts.racks.link_mbit_s: missing; allowed: 1 to 100,000"},
      {"link_mbit_s: 10\nracks { link_mbit_s: 5 }",
       "file:3: cluster.hosts.racks.second: missing; allowed: one or more hosts"},
      {"link_mbit_s: 10\nracks { link_mbit_s: 5 second: 'server 1' }",
       absl::StrCat("file:3: cluster.hosts.racks.second[0]: no arm has a host 'server "
                    "1'; allowed: ",
                    hosts)},
      {"link_mbit_s: 10 colocated_servers: true\nlinks { host: 'server 0' }",
       absl::StrCat("file:3: cluster.hosts.links[0].host: no arm has a host 'server "
                    "0'; allowed: ",
                    workers)},
      {"link_mbit_s: 10 colocated_servers: true\nracks { link_mbit_s: 5 second: 'server "
       "0' }",
       absl::StrCat("file:3: cluster.hosts.racks.second[0]: no arm has a host 'server "
                    "0'; allowed: ",
                    workers)}};
  for (const auto& [text, error] : mistakes) {
    EXPECT_THAT(Check(text), StatusIs(absl::StatusCode::kInvalidArgument, error)) << text;
  }
}

TEST(HostSettingsTest, DefaultsFollowTheFastestLink) {
  const Hosts slow =
      Filled("link_mbit_s: 100 links { host: 'worker 1' send_mbit_s: 10 }");
  EXPECT_EQ(slow.queue_bytes(), 256 << 10);
  EXPECT_EQ(slow.burst_bytes(), 32 << 10);
  EXPECT_EQ(slow.links(0).send_mbit_s(), 10);
  EXPECT_EQ(slow.links(0).receive_mbit_s(), 100);
  const Hosts fast =
      Filled("link_mbit_s: 100 links { host: 'server 0' receive_mbit_s: 1000 }");
  EXPECT_EQ(fast.queue_bytes(), 1'000'000);
  EXPECT_EQ(fast.burst_bytes(), 125'000);
  const Hosts own = Filled("link_mbit_s: 1000 queue_bytes: 3000 burst_bytes: 4000");
  EXPECT_EQ(own.queue_bytes(), 3000);
  EXPECT_EQ(own.burst_bytes(), 4000);
}

TEST(HostSettingsTest, MoreWorkersLeaveLessTimeForDelays) {
  FieldOrigins origins("file");
  const Hosts hosts = Parse("link_mbit_s: 10 delay_ms: 500", &origins);
  const auto check = [&](int64_t workers, absl::Duration stall) {
    return CheckHosts(hosts, workers, /*servers=*/1, stall, "cluster.hosts", origins);
  };
  EXPECT_OK(check(8, absl::Seconds(30)));
  EXPECT_THAT(check(9, absl::Seconds(30)),
              StatusIs(absl::StatusCode::kInvalidArgument, testing::_));
  EXPECT_OK(check(9, absl::Seconds(32)));
  EXPECT_OK(check(1, absl::Seconds(4)));
}

TEST(HostSettingsTest, DelaysDefaultToThatOfAllLinks) {
  const Hosts hosts = Filled(
      "link_mbit_s: 100 delay_ms: 5 links { host: 'worker 1' send_mbit_s: 10 } "
      "links { host: 'worker 0' delay_ms: 0 }");
  EXPECT_EQ(hosts.links(0).delay_ms(), 5);
  EXPECT_EQ(hosts.links(1).delay_ms(), 0);
  EXPECT_FALSE(
      Filled("link_mbit_s: 100 links { host: 'worker 1' }").links(0).has_delay_ms());
}

TEST(HostSettingsTest, Describes) {
  EXPECT_EQ(DescribeHosts(Filled("link_mbit_s: 200")),
            "links of 200 Mbit/s, queues of 262,144 bytes, bursts of 32,768 bytes, reno");
  EXPECT_EQ(
      DescribeHosts(Filled(
          "link_mbit_s: 200 links { host: 'server 0' send_mbit_s: 400 } "
          "congestion_control: CUBIC racks { link_mbit_s: 50 second: 'worker 1' }")),
      "links of 200 Mbit/s (server 0: sends 400, receives 200), queues of 400,000 "
      "bytes, bursts of 50,000 bytes, cubic, 50 Mbit/s between two racks, the "
      "second with worker 1");
  EXPECT_EQ(DescribeHosts(Filled("link_mbit_s: 200 colocated_servers: true")),
            "links of 200 Mbit/s, queues of 262,144 bytes, bursts of 32,768 bytes, reno, "
            "server k on the host of worker k");
  EXPECT_THAT(
      DescribeHosts(Filled("link_mbit_s: 200 delay_ms: 5")),
      testing::EndsWith("reno, 5 ms delay of each link, added by psring's transports"));
  EXPECT_THAT(
      DescribeHosts(Filled("link_mbit_s: 200 links { host: 'worker 1' delay_ms: 2.5 }")),
      testing::EndsWith("reno, 0 ms delay of each link (worker 1: 2.5 ms), added by "
                        "psring's transports"));
}

}  // namespace
}  // namespace psring
