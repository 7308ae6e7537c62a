#include "experiments/traffic_audit.h"

#include <optional>
#include <string>
#include <vector>

#include "experiments/arm_result_test_util.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"

namespace psring {
namespace {

using testing::HasSubstr;

class TrafficAuditTest : public testing::Test {
 protected:
  TrafficRecord& AddTraffic(const std::string& process, int64_t out, int64_t in) {
    TrafficRecord& traffic = records_.traffic[process];
    traffic.set_process(process);
    traffic.set_payload_out(out);
    traffic.set_payload_in(in);
    return traffic;
  }
  Certificate Certify(const JobSpec& spec) {
    return CertifyTraffic(spec, records_, TrafficOf(spec, records_));
  }

  ArmRecords records_;
};

// Each of 2 ranks sends and receives 40 bytes in each of 2 steps.
TEST_F(TrafficAuditTest, TrafficEqualToTheFormulaPasses) {
  AddTraffic("worker 0", 80, 80).set_initial_out(40);
  AddTraffic("worker 1", 80, 80).set_initial_in(40);
  EXPECT_EQ(Certify(RingSpec(2)).verdict, Verdict::kPass);
  const std::vector<EndpointTraffic> endpoints = TrafficOf(RingSpec(2), records_);
  ASSERT_EQ(endpoints.size(), 2);
  EXPECT_EQ(endpoints[0].name, "worker 0");
  EXPECT_EQ(endpoints[0].role, "worker");
  EXPECT_EQ(endpoints[0].steps, 2);
  EXPECT_EQ(endpoints[0].formula_out, 80);
  EXPECT_EQ(endpoints[0].formula_in, 80);
  EXPECT_EQ(endpoints[0].payload_out, 80);
  EXPECT_EQ(endpoints[0].initial_out, 40);
  EXPECT_EQ(endpoints[1].initial_in, 40);
}

TEST_F(TrafficAuditTest, WhatLinksCostIsThereWhereItIsKnown) {
  TrafficRecord& traffic = AddTraffic("worker 0", 80, 80);
  traffic.set_awaiting_bytes_ns(1'500'000'000);
  traffic.set_awaiting_room_ns(0);
  traffic.set_retransmissions(3);
  AddTraffic("worker 1", 80, 80);
  const std::vector<EndpointTraffic> endpoints = TrafficOf(RingSpec(2), records_);
  ASSERT_EQ(endpoints.size(), 2);
  EXPECT_EQ(endpoints[0].awaiting_bytes_seconds, 1.5);
  EXPECT_EQ(endpoints[0].awaiting_room_seconds, 0.0);
  EXPECT_EQ(endpoints[0].retransmissions, 3);
  EXPECT_EQ(endpoints[1].awaiting_bytes_seconds, std::nullopt);
  EXPECT_EQ(endpoints[1].awaiting_room_seconds, std::nullopt);
  EXPECT_EQ(endpoints[1].retransmissions, std::nullopt);
}

TEST_F(TrafficAuditTest, TrafficBesideTheFormulaFailsWithBothNumbers) {
  AddTraffic("worker 0", 80, 80);
  AddTraffic("worker 1", 80, 80);
  AddTraffic("server 0", 160, 156);
  const JobSpec spec = ServersSpec(2, 1, Sync::RING);
  EXPECT_EQ(Certify(spec).verdict, Verdict::kFail);
  EXPECT_EQ(Certify(spec).why,
            "server 0 sent 160 bytes where the formula says 160 and received 156 where "
            "it says 160");
  AddTraffic("server 0", 160, 160);
  EXPECT_EQ(Certify(spec).verdict, Verdict::kPass);
  AddTraffic("worker 1", 84, 80);
  EXPECT_THAT(Certify(spec).why, HasSubstr("worker 1 sent 84"));
}

// 4 contributions, of which the fast worker makes 3; the servers see them all.
TEST_F(TrafficAuditTest, AWorkerIsHeldToTheStepsThatItMade) {
  const JobSpec spec = AsyncSpec(2);
  records_.steps.resize(2);
  records_.steps[0].resize(3);
  records_.steps[1].resize(1);
  AddTraffic("worker 0", 120, 120);
  AddTraffic("worker 1", 40, 40);
  AddTraffic("server 0", 160, 160).set_snapshot_out(40);
  EXPECT_EQ(Certify(spec).verdict, Verdict::kPass);
  const std::vector<EndpointTraffic> endpoints = TrafficOf(spec, records_);
  EXPECT_EQ(endpoints[0].steps, 3);
  EXPECT_EQ(endpoints[1].steps, 1);
  EXPECT_EQ(endpoints[2].steps, 2);
  EXPECT_EQ(endpoints[2].snapshot_out, 40);
  AddTraffic("worker 1", 80, 80);
  EXPECT_THAT(Certify(spec).why,
              HasSubstr("worker 1 sent 80 bytes where the formula says 40"));
}

// In lockstep no worker may make up for another.
TEST_F(TrafficAuditTest, InLockstepEveryWorkerIsHeldToAllSteps) {
  records_.steps.resize(2);
  records_.steps[0].resize(3);
  records_.steps[1].resize(1);
  AddTraffic("worker 0", 120, 120);
  AddTraffic("worker 1", 40, 40);
  AddTraffic("server 0", 160, 160);
  EXPECT_THAT(Certify(ServersSpec(2, 1, Sync::RING)).why,
              HasSubstr("worker 0 sent 120 bytes where the formula says 80"));
}

TEST_F(TrafficAuditTest, UnreportedTrafficFails) {
  AddTraffic("worker 0", 80, 80);
  EXPECT_EQ(Certify(RingSpec(2)).verdict, Verdict::kFail);
  EXPECT_EQ(Certify(RingSpec(2)).why, "worker 1 did not report its traffic");
}

// What the kernel has counted is explained by parts that add up to it.
TEST_F(TrafficAuditTest, LinksBesideTheProgramsCount) {
  AddTraffic("worker 0", 80, 80).set_initial_out(40);
  AddTraffic("worker 1", 80, 80).set_initial_in(40);
  records_.traffic["worker 0"].set_wire_out(150);
  HostsReading& reading = records_.readings.emplace_back();
  for (const char* host : {"worker 0", "worker 1"}) {
    for (const bool out : {false, true}) {
      reading.links.push_back({.host = host,
                               .out = out,
                               .bytes = 450,
                               .packets = 4,
                               .dropped = 2,
                               .resent = out ? 1 : 0});
    }
  }
  const std::vector<EndpointTraffic> endpoints = TrafficOf(RingSpec(2), records_);
  ASSERT_TRUE(endpoints[0].link_out.has_value());
  const LinkAudit& out = *endpoints[0].link_out;
  EXPECT_EQ(out.kernel, 450);
  EXPECT_EQ(out.packets, 4);
  EXPECT_EQ(out.payload, 80);
  EXPECT_EQ(out.other_payload, 40);
  EXPECT_EQ(out.framing, 30);
  EXPECT_EQ(out.headers, 4 * 66);
  EXPECT_EQ(out.rest, 450 - 80 - 40 - 30 - 4 * 66);
  EXPECT_EQ(out.resent, 1);
  EXPECT_EQ(out.dropped, 2);
  // Where the program does not count its framing, that is in the rest.
  ASSERT_TRUE(endpoints[1].link_in.has_value());
  EXPECT_EQ(endpoints[1].link_in->framing, std::nullopt);
  EXPECT_EQ(endpoints[1].link_in->rest, 450 - 80 - 40 - 4 * 66);
  EXPECT_EQ(Certify(RingSpec(2)).verdict, Verdict::kPass);

  reading.links[3].bytes = 79;
  EXPECT_EQ(Certify(RingSpec(2)).why,
            "worker 1 counts 80 bytes out, more than the 79 that its link has carried");
}

TEST_F(TrafficAuditTest, OneProcessHasNoTraffic) {
  EXPECT_EQ(Certify(LocalSpec()).verdict, Verdict::kNotApplicable);
}

}  // namespace
}  // namespace psring
