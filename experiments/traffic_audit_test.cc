#include "experiments/traffic_audit.h"

#include <algorithm>
#include <optional>
#include <string>
#include <vector>

#include "absl/strings/str_cat.h"
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
  static JobSpec OnHosts(JobSpec spec) {
    spec.mutable_experiment()->mutable_cluster()->mutable_hosts()->set_link_mbit_s(10);
    return spec;
  }
  Certificate Certify(const JobSpec& spec) {
    return CertifyTraffic(spec, records_, TrafficOf(spec, records_));
  }

  // Of the servers' two slots: what this worker has recorded.
  void AddSteps(size_t rank, size_t steps) {
    records_.steps.resize(std::max(records_.steps.size(), rank + 1));
    records_.steps[rank].resize(steps);
    for (StepRecord& step : records_.steps[rank]) step.set_operations(2);
  }

  ArmRecords records_;
};

TEST(ServerImbalanceTest, IsTheMostThatOneSendsByTheMean) {
  std::vector<EndpointTraffic> endpoints = {
      {.name = "worker 0", .role = "worker", .payload_out = 1000}};
  EXPECT_EQ(ServerImbalanceOf(endpoints), std::nullopt);
  endpoints.push_back({.name = "server 0", .role = "server", .payload_in = 7});
  endpoints.push_back({.name = "server 1", .role = "server"});
  EXPECT_EQ(ServerImbalanceOf(endpoints), std::nullopt);  // Not reported.
  endpoints[1].payload_out = 30;
  EXPECT_EQ(ServerImbalanceOf(endpoints), 2);
  endpoints[2].payload_out = 10;
  EXPECT_EQ(ServerImbalanceOf(endpoints), 1.5);
  endpoints[2].payload_out = 30;
  EXPECT_EQ(ServerImbalanceOf(endpoints), 1);
}

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

// Right bytes over all steps do not make up for a step with too many.
TEST_F(TrafficAuditTest, EveryStepIsHeldToItsOperations) {
  AddTraffic("worker 0", 80, 80);
  AddTraffic("worker 1", 80, 80);
  JobSpec spec = RingSpec(2);
  for (const bool sharded : {false, true}) {
    spec.mutable_arm()->mutable_ring()->set_sharded_optimizer(sharded);
    const int operations = sharded ? 4 : 2;  // Of two buckets.
    records_.steps.assign(2, std::vector<StepRecord>(2));
    for (auto& rank : records_.steps) {
      for (StepRecord& step : rank) step.set_operations(operations);
      rank[1].set_step(1);
    }
    EXPECT_EQ(TrafficOf(spec, records_)[1].formula_operations, operations);
    EXPECT_EQ(Certify(spec).verdict, Verdict::kPass) << Certify(spec).why;
    records_.steps[1][1].set_operations(3);
    EXPECT_EQ(Certify(spec).verdict, Verdict::kFail);
    EXPECT_EQ(Certify(spec).why,
              absl::StrCat("worker 1 took 3 operations in step 1 where the formula says ",
                           operations));
  }
}

// Of 2 steps one was made before.
TEST_F(TrafficAuditTest, ARestoredRunIsHeldToTheStepsThatWereLeft) {
  JobSpec spec = ServersSpec(2, 1, Sync::RING);
  for (int rank = 0; rank < 2; ++rank) spec.mutable_restored()->add_next_steps(1);
  AddTraffic("worker 0", 40, 40);
  AddTraffic("worker 1", 40, 40);
  AddTraffic("server 0", 80, 80);
  EXPECT_EQ(Certify(spec).verdict, Verdict::kPass) << Certify(spec).why;
  EXPECT_EQ(TrafficOf(spec, records_)[2].steps, 1);
  AddTraffic("server 0", 160, 160);
  EXPECT_EQ(Certify(spec).verdict, Verdict::kFail);
  // Of 4 contributions one was made before, and 3 are no whole number of steps.
  spec = AsyncSpec(2);
  spec.mutable_restored()->add_next_steps(1);
  spec.mutable_restored()->add_next_steps(0);
  AddSteps(0, 2);
  AddSteps(1, 1);
  AddTraffic("worker 0", 80, 80);
  AddTraffic("worker 1", 40, 40);
  AddTraffic("server 0", 120, 120);
  EXPECT_EQ(Certify(spec).verdict, Verdict::kPass) << Certify(spec).why;
}

// 4 contributions, of which the fast worker makes 3; the servers see them all.
TEST_F(TrafficAuditTest, AWorkerIsHeldToTheStepsThatItMade) {
  const JobSpec spec = AsyncSpec(2);
  AddSteps(0, 3);
  AddSteps(1, 1);
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
  AddSteps(0, 3);
  AddSteps(1, 1);
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
  const JobSpec spec = OnHosts(RingSpec(2));
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
  const std::vector<EndpointTraffic> endpoints = TrafficOf(spec, records_);
  EXPECT_EQ(endpoints[1].host, "worker 1");
  ASSERT_TRUE(endpoints[0].link_out.has_value());
  const LinkAudit& out = *endpoints[0].link_out;
  EXPECT_EQ(out.kernel, 450);
  EXPECT_EQ(out.packets, 4);
  EXPECT_EQ(out.formula, 80);
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
  EXPECT_EQ(Certify(spec).verdict, Verdict::kPass);

  reading.links[3].bytes = 79;
  EXPECT_EQ(
      Certify(spec).why,
      "on the host of worker 1, 80 bytes are counted out, more than the 79 that its "
      "link has carried");
}

// Three workers and a server beside worker 0, of 40 bytes and two steps.
class ColocatedTrafficTest : public TrafficAuditTest {
 protected:
  ColocatedTrafficTest() : spec_(OnHosts(ServersSpec(3, 1, Sync::RING))) {
    spec_.mutable_experiment()->mutable_cluster()->mutable_hosts()->set_colocated_servers(
        true);
    TrafficRecord& beside = AddTraffic("worker 0", 80, 80);
    beside.set_initial_out(40);
    beside.set_initial_in(40);
    beside.set_snapshot_in(40);
    SetLocal(&beside, 80, 80, 40, 80);
    AddTraffic("worker 1", 80, 80).set_initial_in(40);
    AddTraffic("worker 2", 80, 80).set_initial_in(40);
    TrafficRecord& server = AddTraffic("server 0", 240, 240);
    server.set_initial_out(120);
    server.set_initial_in(40);
    server.set_snapshot_out(40);
    SetLocal(&server, 80, 80, 80, 40);
    HostsReading& reading = records_.readings.emplace_back();
    for (const char* host : {"worker 0", "worker 1", "worker 2"}) {
      for (const bool out : {false, true}) {
        reading.links.push_back(
            {.host = host, .out = out, .bytes = 1000, .packets = 2, .resent = 0});
      }
    }
  }
  static void SetLocal(TrafficRecord* traffic, int64_t payload_out, int64_t payload_in,
                       int64_t other_out, int64_t other_in) {
    traffic->set_local_payload_out(payload_out);
    traffic->set_local_payload_in(payload_in);
    traffic->set_local_other_out(other_out);
    traffic->set_local_other_in(other_in);
  }

  JobSpec spec_;
};

TEST_F(ColocatedTrafficTest, AHostsLinkHasOneRowForAllOnItWithoutWhatStaysThere) {
  const std::vector<EndpointTraffic> endpoints = TrafficOf(spec_, records_);
  ASSERT_EQ(endpoints.size(), 4);
  for (const EndpointTraffic& endpoint : endpoints) {
    EXPECT_EQ(endpoint.host, endpoint.role == "server" ? "worker 0" : endpoint.name);
    EXPECT_EQ(endpoint.link_out.has_value(), endpoint.role == "worker");
    EXPECT_EQ(endpoint.link_in.has_value(), endpoint.role == "worker");
  }
  // Worker 0 sends nothing beyond its host, the server to two workers.
  const LinkAudit& out = *endpoints[0].link_out;
  EXPECT_EQ(out.formula, 2 * 80);
  EXPECT_EQ(out.payload, 2 * 80);
  EXPECT_EQ(out.other_payload, 2 * 40);
  EXPECT_EQ(out.headers, 2 * 66);
  EXPECT_EQ(out.rest, 1000 - 2 * 80 - 2 * 40 - 2 * 66);
  EXPECT_EQ(endpoints[0].link_in->formula, 2 * 80);
  EXPECT_EQ(endpoints[0].link_in->payload, 2 * 80);
  EXPECT_EQ(endpoints[0].link_in->other_payload, 0);
  // The others are on the network with all that they send.
  EXPECT_EQ(endpoints[2].link_out->formula, 80);
  EXPECT_EQ(endpoints[2].link_out->payload, 80);
  EXPECT_EQ(endpoints[2].link_in->other_payload, 40);
  EXPECT_EQ(Certify(spec_).verdict, Verdict::kPass);

  records_.readings[0].links[1].bytes = 239;
  EXPECT_EQ(Certify(spec_).why,
            "on the host of worker 0, 240 bytes are counted out, more than the 239 that "
            "its link has carried");
}

// `wire` leaves out connections that stay on a host.
TEST_F(ColocatedTrafficTest, FramingIsOfAllProcessesOfTheHost) {
  for (auto& [name, traffic] : records_.traffic) traffic.set_wire_out(1000);
  const std::vector<EndpointTraffic> endpoints = TrafficOf(spec_, records_);
  const LinkAudit& shared = *endpoints[0].link_out;
  EXPECT_EQ(shared.framing, 2000 - shared.payload - shared.other_payload);
  EXPECT_EQ(endpoints[1].link_out->framing, 1000 - 80);
  records_.traffic["server 0"].clear_wire_out();
  EXPECT_EQ(TrafficOf(spec_, records_)[0].link_out->framing, std::nullopt);
}

TEST_F(ColocatedTrafficTest, WhatStaysOnAHostIsHeldToTheFormula) {
  records_.traffic["server 0"].set_local_payload_in(40);
  records_.readings[0].links[0].bytes = 180;  // As without those 40, on the host of both.
  EXPECT_EQ(Certify(spec_).verdict, Verdict::kFail);
  EXPECT_EQ(Certify(spec_).why,
            "server 0 sent 80 bytes on its host where the formula says 80 and received "
            "40 where it says 80");
}

// 6 contributions, 3 of them of the worker beside the server.
TEST_F(ColocatedTrafficTest, WithoutLockstepAServersLocalPartIsOfItsWorkersSteps) {
  spec_.mutable_arm()->mutable_parameter_server()->mutable_async();
  AddSteps(0, 3);
  AddSteps(1, 2);
  AddSteps(2, 1);
  SetLocal(&AddTraffic("worker 0", 120, 120), 120, 120, 40, 80);
  AddTraffic("worker 2", 40, 40);
  SetLocal(&records_.traffic["server 0"], 120, 120, 80, 40);
  EXPECT_EQ(Certify(spec_).verdict, Verdict::kPass) << Certify(spec_).why;
  EXPECT_EQ(TrafficOf(spec_, records_)[0].link_out->formula, 80 + 40);
}

TEST_F(TrafficAuditTest, OneProcessHasNoTraffic) {
  EXPECT_EQ(Certify(LocalSpec()).verdict, Verdict::kNotApplicable);
}

}  // namespace
}  // namespace psring
