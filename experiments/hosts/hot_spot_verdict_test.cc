#include "experiments/hosts/hot_spot_verdict.h"

#include <string>
#include <vector>

#include "gmock/gmock.h"
#include "gtest/gtest.h"

namespace psring {
namespace {

// M is 100 bytes.
ArmRuns Make(const std::string& name, int workers, int64_t worker_bytes,
             const std::string& busiest, double utilisation, double factor) {
  ArmResult run;
  run.name = name;
  run.workers = workers;
  run.step_ms.mean = 10;
  run.endpoints = {
      {.name = "worker 0",
       .role = "worker",
       .steps = 2,
       .payload_out = 2 * worker_bytes,
       .payload_in = worker_bytes},
      {.name = "server 0", .role = "server", .steps = 2, .payload_in = 9999}};
  run.link_usage = LinkUsage{.links = {{.host = busiest, .utilisation = utilisation}},
                             .hot_spot_factor = factor,
                             .hot_host = busiest};
  run.validity = Validity{};
  return {.runs = {run}};
}

ArmRuns Servers(const std::string& name, int workers, double factor) {
  ArmRuns arm = Make(name, workers, 100, "server 0", 0.973, factor);
  arm.runs[0].servers = 1;
  arm.runs[0].buckets = {{.bytes = 60}, {.bytes = 40}};
  return arm;
}

ArmRuns Ring(const std::string& name, int workers,
             RingMode::Algorithm algorithm = RingMode::RING) {
  ArmRuns arm = Make(name, workers, 175, "worker 0", 0.99, 1.004);
  arm.runs[0].buckets = {{.bytes = 60, .algorithm = algorithm},
                         {.bytes = 40, .algorithm = algorithm}};
  return arm;
}

// A run that learns on no hosts, as every comparison may have.
ArmRuns Plain() { return {.runs = {ArmResult()}}; }

TEST(HotSpotVerdictTest, BothArchitecturesWithTheMostWorkers) {
  std::vector<ArmRuns> arms = {Plain(),
                               Ring("ring_8", 8),
                               Ring("gather_8", 8, RingMode::GATHER_BROADCAST),
                               Servers("striped_8", 8, 1),
                               Servers("one_8", 8, 7.96),
                               Servers("one_4", 4, 9),
                               Ring("ring_4", 4)};
  arms[4].runs[0].step_ms.mean = 46.2;
  EXPECT_EQ(HotSpotVerdict(arms),
            "verdict: one_8: the link of server 0 is the bottleneck, 97 % of the time in "
            "use and 8.0 x the mean worker's; ring_8 moves 1.75 M per worker over every "
            "link alike, and its step is 4.6 x shorter\n");
  // Of another number of workers there is no ring.
  arms[4].runs[0].workers = 16;
  EXPECT_EQ(HotSpotVerdict(arms),
            "verdict: striped_8: every host's link carries alike, 97 % of the time in "
            "use; ring_8 moves 1.75 M per worker over every link alike, and its step is "
            "1.0 x shorter\n");
}

TEST(HotSpotVerdictTest, WhatTheFiguresDoNotSayIsNotSaid) {
  std::vector<ArmRuns> arms = {Servers("one", 2, 2), Ring("ring", 2)};
  arms[0].runs[0].link_usage->links[0] = {.host = "rack 0", .utilisation = 0.6};
  arms[0].runs[0].step_ms.mean = 5;
  arms[1].runs[0].link_usage->hot_spot_factor = 1.5;
  EXPECT_EQ(
      HotSpotVerdict(arms),
      "verdict: one: the link between the racks is the busiest, 60 % of the time in "
      "use; server 0 carries 2.0 x the mean worker's; ring moves 1.75 M per worker over "
      "links of "
      "which one has 1.5 x the mean, and its step is 2.0 x longer\n");
}

TEST(HotSpotVerdictTest, OneArchitectureAlone) {
  EXPECT_EQ(HotSpotVerdict({Servers("one_2", 2, 2), Servers("one_4", 4, 4)}),
            "verdict: one_4: the link of server 0 is the bottleneck, 97 % of the time in "
            "use and 4.0 x the mean worker's\n");
  EXPECT_EQ(HotSpotVerdict({Ring("ring_4", 4), Ring("ring_2", 2)}),
            "verdict: ring_4 moves 1.75 M per worker over every link alike\n");
  EXPECT_EQ(HotSpotVerdict({Ring("gather", 4, RingMode::GATHER_BROADCAST)}), "");
}

TEST(HotSpotVerdictTest, WithoutHostsThereIsNone) {
  EXPECT_EQ(HotSpotVerdict({Plain()}), "");
  EXPECT_EQ(HotSpotVerdict({}), "");
}

TEST(HotSpotVerdictTest, WhatIsVoidSaysSo) {
  std::vector<ArmRuns> arms = {Servers("one", 2, 2), Ring("ring", 2)};
  arms[1].runs[0].validity =
      Validity{.kind = Validity::Kind::kCannotBeTold, .why = "few"};
  EXPECT_EQ(HotSpotVerdict(arms),
            "verdict: none, because whether links set the times of ring cannot be told: "
            "few\n");
  // The second of its seeds.
  arms[0].runs.push_back(arms[0].runs[0]);
  arms[0].runs[1].validity = Validity{.kind = Validity::Kind::kVoid, .why = "low"};
  EXPECT_EQ(HotSpotVerdict(arms), "verdict: none, because one is void: low\n");
}

}  // namespace
}  // namespace psring
