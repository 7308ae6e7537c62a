#include "experiments/hosts/link_usage.h"

#include <string>

#include "common/job_plan.h"
#include "experiments/hosts/host_plan.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"

namespace psring {
namespace {

// Two workers and a server, on links of 8 Mbit/s: a byte takes 1 microsecond.
JobSpec MakeSpec() {
  JobSpec spec;
  spec.set_workers(2);
  spec.set_servers(1);
  spec.set_steps(2);
  spec.mutable_arm()->mutable_parameter_server();
  spec.mutable_experiment()->mutable_cluster()->mutable_hosts()->set_link_mbit_s(8);
  return spec;
}

class LinkUsageTest : public testing::Test {
 protected:
  LinkUsageTest() {
    records_.moving = absl::Seconds(1);
    records_.steps.resize(1);
    StepRecord& step = records_.steps[0].emplace_back();
    step.set_start_ns(500'000'000);
    step.set_total_ns(2'000'000'000);
    for (const char* name : {"worker 0", "worker 1", "server 0"}) {
      endpoints_.push_back({.name = name, .role = "", .host = name});
    }
  }

  void Read(double seconds, absl::Duration idle, int64_t worker_bytes,
            int64_t server_bytes, int64_t backlog) {
    HostsReading& reading = records_.readings.emplace_back();
    reading.time = absl::UnixEpoch() + absl::Seconds(seconds);
    reading.processors = 2 * absl::Seconds(seconds);
    reading.idle = idle;
    for (const char* name : {"worker 0", "worker 1", "server 0"}) {
      for (const bool out : {false, true}) {
        const bool server = std::string(name) == "server 0";
        reading.links.push_back({.host = name,
                                 .out = out,
                                 .bytes = !server ? worker_bytes
                                          : out   ? server_bytes
                                                  : server_bytes / 2,
                                 .dropped = server && out ? 3 : 0,
                                 .backlog_bytes = server && out ? backlog : 0});
      }
    }
  }

  ArmRecords records_;
  std::vector<EndpointTraffic> endpoints_;
};

TEST_F(LinkUsageTest, TheBusiestLinkAndItsShares) {
  Read(10, absl::Seconds(4), 0, 0, 0);
  Read(11, absl::Seconds(4.5), 100'000, 400'000, 700);
  Read(12, absl::Seconds(4.75), 200'000, 800'000, 100);
  Read(13, absl::Seconds(6.75), 200'000, 800'000, 0);  // Nothing moved: does not count.
  // Half of the server's payload was not the steps'.
  for (EndpointTraffic& endpoint : endpoints_) {
    endpoint.payload_out = endpoint.payload_in = 50;
    if (endpoint.name == "server 0") endpoint.initial_out = endpoint.snapshot_out = 25;
  }
  const std::optional<LinkUsage> usage = LinkUsageOf(MakeSpec(), records_, endpoints_);
  ASSERT_TRUE(usage.has_value());
  ASSERT_EQ(usage->links.size(), 6);
  const LinkUse& busiest = usage->links[usage->busiest];
  // 400,000 bytes are 0.4 s, as many as the server has received; the first one counts.
  EXPECT_EQ(busiest.host, "server 0");
  EXPECT_TRUE(busiest.out);
  EXPECT_DOUBLE_EQ(busiest.bytes, 400'000);
  EXPECT_DOUBLE_EQ(busiest.utilisation, 0.4);
  EXPECT_DOUBLE_EQ(busiest.share_of_steps, 0.2);
  EXPECT_EQ(busiest.dropped, 3);
  EXPECT_EQ(busiest.backlog_bytes, 700);
  EXPECT_DOUBLE_EQ(usage->hot_spot_factor, 2);
  EXPECT_DOUBLE_EQ(usage->moving_seconds, 1);
  EXPECT_EQ(usage->intervals_in_use, 2);
  EXPECT_DOUBLE_EQ(usage->seconds_in_use, 2);
  EXPECT_DOUBLE_EQ(usage->idle_processors, 0.75 / 4);
  EXPECT_DOUBLE_EQ(usage->peak_utilisation, 0.4);
}

// The server sends 100 of 150 to the other worker and 50 to its own; of what the worker
// beside it sends, 30 go over the link.
TEST_F(LinkUsageTest, OfTwoProcessesOnOneHostOnlyWhatLeavesItCounts) {
  JobSpec spec = MakeSpec();
  spec.mutable_experiment()->mutable_cluster()->mutable_hosts()->set_colocated_servers(
      true);
  Read(10, absl::Seconds(4), 200'000, 0, 0);
  records_.readings[0].links[1].bytes = 800'000;
  records_.readings[0].links[0].bytes = 100'000;
  endpoints_[0].payload_out = 80;
  endpoints_[0].local_payload_out = 50;
  endpoints_[1].payload_out = endpoints_[1].payload_in = 50;
  endpoints_[2].host = "worker 0";
  endpoints_[2].payload_out = 150;
  endpoints_[2].local_payload_out = 50;
  endpoints_[2].initial_out = 250;
  endpoints_[2].local_other_out = 120;
  const std::optional<LinkUsage> usage = LinkUsageOf(spec, records_, endpoints_);
  ASSERT_TRUE(usage.has_value());
  ASSERT_EQ(usage->links.size(), 4);
  EXPECT_EQ(usage->links[usage->busiest].host, "worker 0");
  EXPECT_TRUE(usage->links[usage->busiest].out);
  // 30 + 100 of the steps, 130 of the first distribution.
  EXPECT_DOUBLE_EQ(usage->links[usage->busiest].bytes, 400'000);
  EXPECT_DOUBLE_EQ(usage->links[2].bytes, 200'000);
  EXPECT_DOUBLE_EQ(usage->hot_spot_factor, 400.0 / 300);
  EXPECT_EQ(usage->hot_host, "worker 0");
}

// A step moves 40 bytes to each worker, so 80 through the server.
TEST_F(LinkUsageTest, TheFloorAndTheTimeOverIt) {
  JobSpec spec = MakeSpec();
  spec.mutable_arm()->mutable_parameter_server()->mutable_sync();
  spec.mutable_experiment()->mutable_buckets()->set_cap_bytes(100);
  spec.mutable_experiment()->mutable_buckets()->set_first_cap_bytes(100);
  ParameterLayout layout;
  layout.Add("weight", {10});
  DescribeLayout(layout, &spec);
  Read(10, absl::Seconds(4), 0, 0, 0);
  Read(11, absl::Seconds(4), 100, 200, 0);
  endpoints_[0].payload_out = 50;
  std::optional<LinkUsage> usage = LinkUsageOf(spec, records_, endpoints_);
  ASSERT_TRUE(usage.has_value());
  EXPECT_FALSE(usage->floor.has_value());
  EXPECT_EQ(usage->no_floor, "no link was probed");

  const HostPlan plan = PlanHosts(spec);
  records_.probed_links = {{.link = {.kind = KindOfHost(plan, plan.hosts[0])},
                            .out_bytes_s = 400,
                            .in_bytes_s = 800,
                            .idle = 1}};
  usage = LinkUsageOf(spec, records_, endpoints_);
  ASSERT_TRUE(usage.has_value() && usage->floor.has_value());
  EXPECT_DOUBLE_EQ(usage->floor->seconds, 0.2);
  EXPECT_EQ(usage->floor->host, "server 0");
  EXPECT_TRUE(usage->floor->out);
  // 1 s in two steps.
  EXPECT_DOUBLE_EQ(usage->over_floor, 0.5 / 0.2);
}

TEST_F(LinkUsageTest, NoneWithoutHostsReadingsOrBytes) {
  EXPECT_FALSE(LinkUsageOf(MakeSpec(), records_, endpoints_).has_value());
  Read(10, absl::Seconds(4), 0, 0, 0);
  EXPECT_FALSE(LinkUsageOf(MakeSpec(), records_, endpoints_).has_value());
  Read(11, absl::Seconds(4), 10, 10, 0);
  endpoints_[0].payload_out = 5;
  EXPECT_TRUE(LinkUsageOf(MakeSpec(), records_, endpoints_).has_value());
  JobSpec without = MakeSpec();
  without.mutable_experiment()->mutable_cluster()->clear_hosts();
  EXPECT_FALSE(LinkUsageOf(without, records_, endpoints_).has_value());
  records_.moving = absl::ZeroDuration();
  EXPECT_FALSE(LinkUsageOf(MakeSpec(), records_, endpoints_).has_value());
}

}  // namespace
}  // namespace psring
