#include "experiments/probe/step_floor.h"

#include <string>
#include <vector>

#include "absl/strings/str_cat.h"
#include "common/job_plan.h"
#include "common/status_matchers.h"
#include "experiments/probe/probe_test_util.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"

namespace psring {
namespace {

using testing::ElementsAre;
using testing::HasSubstr;

std::vector<std::string> Texts(const std::vector<LinkBytes>& links) {
  std::vector<std::string> texts;
  for (const LinkBytes& link : links) {
    texts.push_back(absl::StrCat(link.host, link.out ? " out " : " in ", link.bytes));
  }
  return texts;
}

std::vector<std::string> BytesOf(const JobSpec& spec) {
  return Texts(StepBytesOfLinks(spec, PlanJob(spec)));
}

TEST(LinksToProbeTest, EachKindOnceWithTheNumberOfItsLinks) {
  JobSpec servers = ProbeSpec(3, 1);
  HostLink& link = *HostsOfProbe(&servers).add_links();
  link.set_host("server 0");
  link.set_send_mbit_s(400);
  link.set_receive_mbit_s(300);
  JobSpec racks = ProbeSpec(4, 0);
  HostsOfProbe(&racks).mutable_racks()->set_link_mbit_s(50);
  HostsOfProbe(&racks).mutable_racks()->add_second("worker 3");
  JobSpec loopback = ProbeSpec(2, 0);
  loopback.mutable_experiment()->mutable_cluster()->clear_hosts();
  JobSpec local = ProbeSpec(1, 0);
  local.mutable_arm()->mutable_local();
  JobSpec memory = ProbeSpec(2, 0);
  memory.mutable_arm()->mutable_ring()->set_transport(RingMode::SHARED_MEMORY);
  HostsOfProbe(&memory).set_link_mbit_s(7);
  HostsOfProbe(&local).set_link_mbit_s(7);

  std::vector<std::string> texts;
  for (const LinkToProbe& probe :
       LinksToProbe({servers, racks, loopback, local, memory})) {
    texts.push_back(absl::StrCat(probe.host, " ", probe.kind.send_bit_s, " ",
                                 probe.kind.receive_bit_s, " ", probe.alike,
                                 probe.kind.between_racks ? " racks" : ""));
  }
  EXPECT_THAT(texts, ElementsAre("worker 0 100000000 100000000 4",
                                 "server 0 400000000 300000000 1",
                                 "rack 0 50000000 50000000 1 racks", "loopback 0 0 1"));
}

TEST(LinksToProbeTest, LinksOfOneSpeedAndAnotherQueueAreOfAnotherKind) {
  JobSpec other = ProbeSpec(2, 0);
  HostsOfProbe(&other).set_queue_bytes(7000);
  EXPECT_EQ(LinksToProbe({ProbeSpec(2, 0), ProbeSpec(2, 1), other}).size(), 2);
}

TEST(ProbedLinkTest, VoidWhereProcessorsWereBusy) {
  ProbedLink probed = Measured(KindOfProbe(ProbeSpec(2, 0)), 1e6, 2e6);
  EXPECT_FALSE(probed.is_void());
  EXPECT_EQ(ToString(probed),
            "worker 0: 8.0 Mbit/s of payload out, 16.0 in, latency 10000 us");
  probed.idle = 0.09;
  EXPECT_TRUE(probed.is_void());
  // 94 % of 100 Mbit/s in both directions: whatever the processors did, the link was
  // full.
  probed.out_bytes_s = probed.in_bytes_s = 11.75e6;
  EXPECT_FALSE(probed.is_void());
  probed.in_bytes_s = 11.7e6;
  EXPECT_TRUE(probed.is_void());
  EXPECT_THAT(ToString(probed), HasSubstr("; void: 9.0 % of processor time was left"));
  probed.link.kind = {};  // The loopback interface, which has no other limit.
  EXPECT_FALSE(probed.is_void());
}

TEST(StepBytesOfLinksTest, ByFormula) {
  EXPECT_THAT(BytesOf(ProbeSpec(2, 1)),
              ElementsAre("worker 0 out 3200", "worker 0 in 3200", "worker 1 out 3200",
                          "worker 1 in 3200", "server 0 out 6400", "server 0 in 6400"));
  EXPECT_THAT(BytesOf(ProbeSpec(2, 0)),
              ElementsAre("worker 0 out 3200", "worker 0 in 3200", "worker 1 out 3200",
                          "worker 1 in 3200"));
}

// A worker sends half of M to the other host, and a server as much.
TEST(StepBytesOfLinksTest, OfServersBesideWorkersWhatLeavesTheHost) {
  JobSpec spec = ProbeSpec(2, 2);
  HostsOfProbe(&spec).set_colocated_servers(true);
  EXPECT_THAT(BytesOf(spec), ElementsAre("worker 0 out 3200", "worker 0 in 3200",
                                         "worker 1 out 3200", "worker 1 in 3200"));
}

TEST(StepBytesOfLinksTest, WithoutHostsTheyAreTheProcesses) {
  JobSpec spec = ProbeSpec(1, 1);
  spec.mutable_experiment()->mutable_cluster()->clear_hosts();
  const std::vector<LinkBytes> links = StepBytesOfLinks(spec, PlanJob(spec));
  EXPECT_THAT(Texts(links), ElementsAre("worker 0 out 3200", "worker 0 in 3200",
                                        "server 0 out 3200", "server 0 in 3200"));
  EXPECT_TRUE(links[0].kind.loopback());
}

// What the last two links say: those between racks.
std::vector<std::string> BetweenRacks(JobSpec spec,
                                      const std::vector<std::string>& second) {
  HostsOfProbe(&spec).mutable_racks()->set_link_mbit_s(50);
  for (const std::string& host : second) {
    HostsOfProbe(&spec).mutable_racks()->add_second(host);
  }
  const std::vector<std::string> all = BytesOf(spec);
  return {all.end() - 2, all.end()};
}

TEST(StepBytesOfLinksTest, BetweenRacks) {
  // In the ring 0 1 2 3 one link leads out of rack 0, and one into it.
  EXPECT_THAT(BetweenRacks(ProbeSpec(4, 0), {"worker 2", "worker 3"}),
              ElementsAre("rack 0 out 4800", "rack 0 in 4800"));
  // In the ring 0 2 1 3 all four cross.
  JobSpec crossing = ProbeSpec(4, 0);
  for (const int rank : {0, 2, 1, 3}) {
    crossing.mutable_experiment()->add_ring_order(rank);
  }
  EXPECT_THAT(BetweenRacks(crossing, {"worker 2", "worker 3"}),
              ElementsAre("rack 0 out 9600", "rack 0 in 9600"));
  // Two of three workers are in the other rack than the server, and the reverse.
  EXPECT_THAT(BetweenRacks(ProbeSpec(3, 1), {"worker 0", "server 0"}),
              ElementsAre("rack 0 out 6400", "rack 0 in 6400"));
  JobSpec star = ProbeSpec(3, 0);
  star.mutable_arm()->mutable_ring()->set_algorithm(RingMode::GATHER_BROADCAST);
  EXPECT_THAT(BetweenRacks(star, {"worker 2"}),
              ElementsAre("rack 0 out 3200", "rack 0 in 3200"));
}

TEST(FloorTest, TheSlowestLinkSetsIt) {
  JobSpec spec = ProbeSpec(2, 1);
  const LinkKind kind = KindOfProbe(spec);
  ASSERT_OK_AND_ASSIGN(StepFloor floor, FloorOf(spec, {Measured(kind, 1000, 2000)}));
  EXPECT_DOUBLE_EQ(floor.seconds, 6.4);
  EXPECT_EQ(floor.host, "server 0");
  EXPECT_TRUE(floor.out);
  ASSERT_OK_AND_ASSIGN(floor, FloorOf(spec, {Measured(kind, 2000, 1000)}));
  EXPECT_DOUBLE_EQ(floor.seconds, 6.4);
  EXPECT_FALSE(floor.out);

  HostLink& link = *HostsOfProbe(&spec).add_links();
  link.set_host("server 0");
  link.set_send_mbit_s(1000);
  link.set_receive_mbit_s(1000);
  const HostPlan plan = PlanHosts(spec);
  const LinkKind fast = KindOfHost(plan, plan.hosts[plan.HostOf("server 0")]);
  ASSERT_OK_AND_ASSIGN(
      floor, FloorOf(spec, {Measured(fast, 10'000, 10'000), Measured(kind, 1000, 2000)}));
  EXPECT_DOUBLE_EQ(floor.seconds, 3.2);
  EXPECT_EQ(floor.host, "worker 0");
}

TEST(FloorTest, TheLinkBetweenRacksMaySetIt) {
  JobSpec spec = ProbeSpec(4, 0);
  HostsOfProbe(&spec).mutable_racks()->set_link_mbit_s(50);
  HostsOfProbe(&spec).mutable_racks()->add_second("worker 3");
  const LinkKind between = KindBetweenRacks(PlanHosts(spec));
  ASSERT_OK_AND_ASSIGN(const StepFloor floor,
                       FloorOf(spec, {Measured(KindOfProbe(spec), 1000, 1000),
                                      Measured(between, 500, 500)}));
  EXPECT_DOUBLE_EQ(floor.seconds, 9.6);
  EXPECT_EQ(floor.host, "rack 0");
}

TEST(FloorTest, NoneWithoutAValidProbe) {
  const JobSpec spec = ProbeSpec(2, 1);
  ProbedLink probed = Measured(KindOfProbe(spec), 1000, 1000);
  EXPECT_THAT(FloorOf(spec, {}),
              StatusIs(absl::StatusCode::kNotFound, HasSubstr("no link was probed")));
  JobSpec other = spec;
  HostsOfProbe(&other).set_link_mbit_s(200);
  EXPECT_THAT(FloorOf(other, {probed}),
              StatusIs(absl::StatusCode::kNotFound, HasSubstr("the link of worker 0")));
  probed.idle = 0;
  EXPECT_THAT(FloorOf(spec, {probed}),
              StatusIs(absl::StatusCode::kFailedPrecondition,
                       HasSubstr("the probe of the link of worker 0 is void: 0.0 %")));
  JobSpec alone = ProbeSpec(1, 0);
  EXPECT_THAT(FloorOf(alone, {probed}),
              StatusIs(absl::StatusCode::kNotFound, HasSubstr("nothing moves")));
}

}  // namespace
}  // namespace psring
