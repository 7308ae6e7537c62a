#include "common/link_counters.h"

#include "gtest/gtest.h"

namespace psring {
namespace {

TEST(LinkCountersTest, EachKindAndDirectionApart) {
  LinkCounters counters;
  counters.CountOut(TrafficKind::kStep, 1);
  counters.CountIn(TrafficKind::kStep, 2);
  counters.CountOut(TrafficKind::kInitial, 4, /*peer=*/0);
  counters.CountIn(TrafficKind::kInitial, 8);
  counters.CountOut(TrafficKind::kSnapshot, 16);
  counters.CountIn(TrafficKind::kSnapshot, 32);
  counters.CountIn(TrafficKind::kStep, 64, /*peer=*/1);
  const ExchangeTraffic traffic = counters.totals();
  EXPECT_EQ(traffic.payload_out, 1);
  EXPECT_EQ(traffic.payload_in, 2 + 64);
  EXPECT_EQ(traffic.initial_out, 4);
  EXPECT_EQ(traffic.initial_in, 8);
  EXPECT_EQ(traffic.snapshot_out, 16);
  EXPECT_EQ(traffic.snapshot_in, 32);
  EXPECT_EQ(traffic.local_payload_out, 0);
  EXPECT_EQ(traffic.local_payload_in, 0);
  EXPECT_EQ(traffic.local_other_out, 0);
  EXPECT_EQ(traffic.local_other_in, 0);
}

TEST(LinkCountersTest, ThePeerOnTheSameHostIsCountedInAllAndApart) {
  LinkCounters counters(/*local_peer=*/1);
  for (const int peer : {0, 1}) {
    counters.CountOut(TrafficKind::kStep, 1, peer);
    counters.CountIn(TrafficKind::kStep, 2, peer);
    counters.CountOut(TrafficKind::kInitial, 4, peer);
    counters.CountIn(TrafficKind::kInitial, 8, peer);
    counters.CountOut(TrafficKind::kSnapshot, 16, peer);
    counters.CountIn(TrafficKind::kSnapshot, 32, peer);
  }
  counters.CountOut(TrafficKind::kStep, 64);
  const ExchangeTraffic traffic = counters.totals();
  EXPECT_EQ(traffic.payload_out, 2 * 1 + 64);
  EXPECT_EQ(traffic.payload_in, 2 * 2);
  EXPECT_EQ(traffic.initial_out, 2 * 4);
  EXPECT_EQ(traffic.snapshot_in, 2 * 32);
  EXPECT_EQ(traffic.local_payload_out, 1);
  EXPECT_EQ(traffic.local_payload_in, 2);
  EXPECT_EQ(traffic.local_other_out, 4 + 16);
  EXPECT_EQ(traffic.local_other_in, 8 + 32);
}

}  // namespace
}  // namespace psring
