#include "common/slot_plan.h"

#include <algorithm>
#include <optional>
#include <random>
#include <tuple>
#include <vector>

#include "absl/strings/str_cat.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"

namespace psring {
namespace {

using testing::Each;
using testing::ElementsAre;
using testing::IsEmpty;

constexpr Placement kPlacements[] = {
    ParameterServerMode::STRIPED, ParameterServerMode::BY_TENSOR_ROUND_ROBIN,
    ParameterServerMode::BY_TENSOR_SIZE, ParameterServerMode::SINGLE};

ParameterLayout MakeLayout(const std::vector<int64_t>& counts) {
  ParameterLayout layout;
  for (const int64_t count : counts) layout.Add("t", {count});
  return layout;
}

// The server of each tensor that has elements; -1 where several have a part. Where the
// plan is right, each tensor has elements in a slot.
std::vector<int> OwnersOf(const ParameterLayout& layout, const SlotPlan& plan) {
  std::vector<int> owners;
  for (const Tensor& tensor : layout.tensors()) {
    if (tensor.range.count == 0) continue;
    std::vector<int> servers;
    for (const Slot& slot : plan.slots) {
      if (slot.range.begin < tensor.range.end() &&
          tensor.range.begin < slot.range.end()) {
        servers.push_back(slot.server);
      }
    }
    const bool one = std::all_of(servers.begin(), servers.end(),
                                 [&](int server) { return server == servers[0]; });
    owners.push_back(!servers.empty() && one ? servers[0] : -1);
  }
  return owners;
}

std::vector<int> OwnersOf(const std::vector<int64_t>& counts, int servers,
                          Placement placement) {
  const ParameterLayout layout = MakeLayout(counts);
  return OwnersOf(layout,
                  PlanSlots(layout, PlanBuckets(layout, 16, 16), servers, placement));
}

// Every element is in one slot; slots are numbered by bucket, server and range, and lie
// within their buckets; what has no gap is cut into no more pieces than the cap wants.
void ExpectWellFormed(const BucketPlan& buckets, const SlotPlan& plan, int64_t count,
                      int64_t max_slot_bytes) {
  std::vector<int> seen(count, 0);
  std::vector<std::vector<int>> of_bucket(buckets.buckets.size());
  std::vector<std::vector<int>> of_server(plan.servers);
  for (const Slot& slot : plan.slots) {
    ASSERT_EQ(slot.index, &slot - plan.slots.data());
    of_bucket[slot.bucket].push_back(slot.index);
    of_server[slot.server].push_back(slot.index);
    const Range& bucket = buckets.buckets[slot.bucket].range;
    ASSERT_GT(slot.range.count, 0);
    ASSERT_LE(slot.range.count * 4, max_slot_bytes);
    ASSERT_GE(slot.range.begin, bucket.begin);
    ASSERT_LE(slot.range.end(), bucket.end());
    for (int64_t i = slot.range.begin; i < slot.range.end(); ++i) ++seen[i];
    if (slot.index == 0) continue;
    const Slot& before = plan.slots[slot.index - 1];
    const auto key = [](const Slot& of) {
      return std::tuple(of.bucket, of.server, of.range.begin);
    };
    ASSERT_LT(key(before), key(slot));
    // Two neighbours that one slot could hold would have been one.
    if (before.bucket == slot.bucket && before.server == slot.server &&
        before.range.end() == slot.range.begin) {
      ASSERT_GT((before.range.count + slot.range.count) * 4, max_slot_bytes);
    }
  }
  EXPECT_EQ(std::count(seen.begin(), seen.end(), 1), count);
  EXPECT_EQ(plan.of_bucket, of_bucket);
  EXPECT_EQ(plan.of_server, of_server);
}

TEST(SlotPlanTest, ServerKOwnsTheKthPartOfEveryBucket) {
  const ParameterLayout layout = MakeLayout({7, 5});
  const BucketPlan buckets = PlanBuckets(layout, 4, 4);
  const SlotPlan plan = PlanStripedSlots(buckets, 3);
  ASSERT_EQ(plan.slots.size(), 6);
  for (const Slot& slot : plan.slots) {
    Range expected =
        PartitionRange(buckets.buckets[slot.bucket].range.count, 3, slot.server);
    expected.begin += buckets.buckets[slot.bucket].range.begin;
    EXPECT_EQ(slot.range, expected);
  }
  EXPECT_THAT(plan.of_bucket[1], ElementsAre(3, 4, 5));
  EXPECT_THAT(plan.of_server[2], ElementsAre(2, 5));
}

TEST(SlotPlanTest, MoreServersThanElementsLeavesServersWithoutSlots) {
  const BucketPlan buckets = PlanBuckets(MakeLayout({2}), 4, 4);
  const SlotPlan plan = PlanStripedSlots(buckets, 5);
  EXPECT_EQ(plan.slots.size(), 2);
  EXPECT_THAT(plan.of_server[4], IsEmpty());
  EXPECT_EQ(ServerStepBytes(plan, 4, /*workers=*/3), 0);
}

TEST(SlotPlanTest, APartLargerThanASlotMayBeIsCutIntoTheFewestEqualSlots) {
  const BucketPlan buckets = PlanBuckets(MakeLayout({23}), 4, 4);
  const SlotPlan plan = PlanStripedSlots(buckets, 2, /*max_slot_bytes=*/5 * 4);
  std::vector<Range> ranges;
  for (const Slot& slot : plan.slots) ranges.push_back(slot.range);
  // Parts of 12 and 11 elements.
  EXPECT_THAT(ranges, ElementsAre(Range{0, 4}, Range{4, 4}, Range{8, 4}, Range{12, 4},
                                  Range{16, 4}, Range{20, 3}));
  EXPECT_THAT(plan.of_server[0], ElementsAre(0, 1, 2));
  EXPECT_THAT(plan.of_server[1], ElementsAre(3, 4, 5));
  EXPECT_THAT(plan.of_bucket[0], ElementsAre(0, 1, 2, 3, 4, 5));
}

TEST(SlotPlanTest, TensorsOfMoreThan32BitsAreCutToo) {
  constexpr int64_t kCount = (int64_t{5} << 30) + 3;  // 20 GiB.
  const SlotPlan plan = PlanStripedSlots(PlanBuckets(MakeLayout({kCount}), 4, 4), 3);
  int64_t end = 0;
  for (const Slot& slot : plan.slots) {
    EXPECT_EQ(slot.range.begin, end);
    EXPECT_LE(slot.range.count * 4, kMaxSlotBytes);
    end = slot.range.end();
  }
  EXPECT_EQ(end, kCount);
  EXPECT_EQ(WorkerStepBytes(plan), 4 * kCount);
}

TEST(SlotPlanTest, WhatServersReceiveIsWhatWorkersSend) {
  const BucketPlan buckets = PlanBuckets(MakeLayout({11, 4, 9, 1}), 40, 20);
  for (int servers = 1; servers <= 9; ++servers) {
    for (const int64_t max_slot_bytes : {4, 12, 1000}) {
      const SlotPlan plan = PlanStripedSlots(buckets, servers, max_slot_bytes);
      int64_t received = 0;
      for (int server = 0; server < servers; ++server) {
        received += ServerStepBytes(plan, server, /*workers=*/3);
      }
      EXPECT_EQ(received, 3 * WorkerStepBytes(plan));
      EXPECT_EQ(WorkerStepBytes(plan), 25 * 4);
    }
  }
}

TEST(SlotPlanTest, LayoutsOfAnyKindAreOwnedOnceInEveryPlacement) {
  std::mt19937 random(7);
  const auto upto = [&random](int64_t most) {
    return std::uniform_int_distribution<int64_t>(0, most)(random);
  };
  for (int round = 0; round < 200; ++round) {
    std::vector<int64_t> counts(static_cast<size_t>(upto(30)));
    // Some tensors have no elements, a few are far larger than the others.
    for (int64_t& count : counts) count = upto(upto(9) == 0 ? 3000 : 12);
    const ParameterLayout layout = MakeLayout(counts);
    const BucketPlan buckets =
        PlanBuckets(layout, 4 * (1 + upto(200)), 4 * (1 + upto(50)));
    const int servers = static_cast<int>(1 + upto(9));
    const int64_t cap = 4 * (1 + upto(100));
    for (const Placement placement : kPlacements) {
      SCOPED_TRACE(absl::StrCat("round ", round, ", placement ", placement));
      const SlotPlan plan = PlanSlots(layout, buckets, servers, placement, cap);
      ASSERT_EQ(plan.servers, servers);
      ExpectWellFormed(buckets, plan, layout.count(), cap);
      EXPECT_EQ(CountSlots(layout, buckets, servers, placement, cap),
                static_cast<int64_t>(plan.slots.size()));
      EXPECT_EQ(WorkerStepBytes(plan), layout.bytes());
      int64_t received = 0;
      for (int server = 0; server < servers; ++server) {
        received += ServerStepBytes(plan, server, /*workers=*/3);
      }
      EXPECT_EQ(received, 3 * layout.bytes());
      if (placement != ParameterServerMode::STRIPED) {
        EXPECT_THAT(OwnersOf(layout, plan), Each(testing::Ne(-1)));
      }
      if (HasFailure()) return;
    }
  }
}

TEST(SlotPlanTest, StripedNeedsNoTensors) {
  const ParameterLayout layout = MakeLayout({7, 0, 300, 5});
  const BucketPlan buckets = PlanBuckets(layout, 64, 16);
  const SlotPlan plan = PlanSlots(layout, buckets, 3, ParameterServerMode::STRIPED);
  const SlotPlan striped = PlanStripedSlots(buckets, 3);
  ASSERT_EQ(plan.slots.size(), striped.slots.size());
  for (size_t i = 0; i < plan.slots.size(); ++i) {
    EXPECT_EQ(plan.slots[i].range, striped.slots[i].range);
    EXPECT_EQ(plan.slots[i].server, striped.slots[i].server);
  }
}

TEST(SlotPlanTest, RoundRobinDealsOutTensorsWithElements) {
  EXPECT_THAT(OwnersOf({5, 1, 0, 1, 9, 2}, 3, ParameterServerMode::BY_TENSOR_ROUND_ROBIN),
              ElementsAre(0, 1, 2, 0, 1));
}

TEST(SlotPlanTest, BySizeTheLargestGoesToTheLeastLoaded) {
  // 9, 6 and 5 to one server each; 4 to the one with 5, 2 to that with 6, 1 to that
  // with 8.
  EXPECT_THAT(OwnersOf({1, 4, 9, 2, 5, 6}, 3, ParameterServerMode::BY_TENSOR_SIZE),
              ElementsAre(1, 2, 0, 1, 2, 1));
}

TEST(SlotPlanTest, BySizeTiesGoByIndex) {
  EXPECT_THAT(OwnersOf({4, 4, 4, 4, 4}, 3, ParameterServerMode::BY_TENSOR_SIZE),
              ElementsAre(0, 1, 2, 0, 1));
}

TEST(SlotPlanTest, SingleLeavesTheOtherServersWithoutSlots) {
  const ParameterLayout layout = MakeLayout({5, 0, 7, 3});
  const BucketPlan buckets = PlanBuckets(layout, 4 * 12, 4);
  const SlotPlan plan = PlanSlots(layout, buckets, 3, ParameterServerMode::SINGLE);
  EXPECT_THAT(OwnersOf(layout, plan), Each(0));
  EXPECT_EQ(plan.slots.size(), 2);  // Neighbours in a bucket are one slot.
  EXPECT_THAT(plan.of_server[1], IsEmpty());
  EXPECT_THAT(plan.of_server[2], IsEmpty());
  EXPECT_EQ(ServerImbalance(plan), 3);
}

TEST(SlotPlanTest, NeighboursOfOneServerAndBucketAreOneSlot) {
  // Round robin on two: servers 0 1 0 1 0, all in one bucket; the tensor without elements
  // takes no turn and does not part its neighbours.
  const ParameterLayout layout = MakeLayout({2, 3, 4, 0});
  const BucketPlan buckets = PlanBuckets(layout, 1000, 1000);
  const SlotPlan one =
      PlanSlots(layout, buckets, 1, ParameterServerMode::BY_TENSOR_ROUND_ROBIN);
  EXPECT_EQ(one.slots.size(), 1);
  const SlotPlan two =
      PlanSlots(layout, buckets, 2, ParameterServerMode::BY_TENSOR_ROUND_ROBIN);
  std::vector<Range> ranges;
  for (const Slot& slot : two.slots) ranges.push_back(slot.range);
  EXPECT_THAT(ranges, ElementsAre(Range{0, 2}, Range{5, 4}, Range{2, 3}));
  EXPECT_THAT(two.of_server[1], ElementsAre(2));
}

TEST(SlotPlanTest, AModelOfOneElement) {
  for (const Placement placement : kPlacements) {
    const ParameterLayout layout = MakeLayout({0, 1, 0});
    const SlotPlan plan = PlanSlots(layout, PlanBuckets(layout, 4, 4), 4, placement);
    ASSERT_EQ(plan.slots.size(), 1);
    EXPECT_EQ(plan.slots[0].server, 0);
    EXPECT_EQ(plan.slots[0].range, (Range{0, 1}));
    EXPECT_EQ(ServerImbalance(plan), 4);
  }
}

TEST(SlotPlanTest, WithoutElementsThereAreNoSlots) {
  for (const Placement placement : kPlacements) {
    const ParameterLayout layout = MakeLayout({0, 0});
    const BucketPlan buckets = PlanBuckets(layout, 4, 4);
    EXPECT_THAT(PlanSlots(layout, buckets, 2, placement).slots, IsEmpty());
    EXPECT_EQ(ServerImbalance(PlanSlots(layout, buckets, 2, placement)), 1);
    EXPECT_EQ(CountSlots(layout, buckets, 2, placement), 0);
  }
}

TEST(SlotPlanTest, BySizeBalancesManySmallTensors) {
  std::mt19937 random(3);
  std::vector<int64_t> counts(100'000);
  for (int64_t& count : counts) {
    count = std::uniform_int_distribution<int64_t>(0, 1000)(random);
  }
  const ParameterLayout layout = MakeLayout(counts);
  const SlotPlan plan = PlanSlots(layout, PlanBuckets(layout, 1 << 20, 1 << 18), 4,
                                  ParameterServerMode::BY_TENSOR_SIZE);
  EXPECT_LE(ServerImbalance(plan), 1.01);
  EXPECT_EQ(WorkerStepBytes(plan), layout.bytes());
}

// Of 2^31 and more elements; by size server 0 has the largest, 1 the next two.
TEST(SlotPlanTest, WholeTensorsOfMoreThan32Bits) {
  constexpr int64_t kLarge = (int64_t{3} << 31) + 1;
  const ParameterLayout layout =
      MakeLayout({kLarge, int64_t{1} << 31, int64_t{1} << 31, 5});
  const SlotPlan plan = PlanSlots(layout, PlanBuckets(layout, 4, 4), 2,
                                  ParameterServerMode::BY_TENSOR_SIZE);
  EXPECT_EQ(ServerElements(plan, 0), kLarge);
  EXPECT_EQ(ServerElements(plan, 1), (int64_t{2} << 31) + 5);
  EXPECT_EQ(ServerStepBytes(plan, 0, /*workers=*/1000), 4000 * kLarge);
}

// Bytes of the largest slot of one tensor of `bytes`.
int64_t LargestSlot(int64_t bytes, std::optional<int64_t> cap = std::nullopt) {
  const ParameterLayout layout = MakeLayout({bytes / 4});
  const SlotPlan plan = PlanSlots(layout, PlanBuckets(layout, 4, 4), 2,
                                  ParameterServerMode::BY_TENSOR_SIZE, cap);
  int64_t largest = 0;
  for (const Slot& slot : plan.slots) largest = std::max(largest, slot.range.count * 4);
  return largest;
}

TEST(SlotPlanTest, WholeTensorsAreCutFinerWhereTheCapIsNotGiven) {
  EXPECT_EQ(LargestSlot(1 << 20), 32 << 10);    // At least.
  EXPECT_EQ(LargestSlot(32 << 20), 128 << 10);  // 1/256.
  EXPECT_EQ(LargestSlot(512 << 20), 1 << 20);   // At most.
  EXPECT_EQ(LargestSlot(32 << 20, 1 << 20), 1 << 20);
  EXPECT_EQ(LargestSlot(1 << 20, 4 << 20), 1 << 20);
  EXPECT_EQ(LargestSlot(4096, 8), 8);
}

// 100,000 tensors, each a bucket, on 4096 servers.
TEST(SlotPlanTest, SlotsAreCountedWithoutMakingThem) {
  const ParameterLayout layout = MakeLayout(std::vector<int64_t>(100'000, 5000));
  const BucketPlan buckets = PlanBuckets(layout, 4, 4);
  EXPECT_EQ(CountSlots(layout, buckets, 4096, ParameterServerMode::STRIPED), 409'600'000);
  EXPECT_EQ(CountSlots(layout, buckets, 4096, ParameterServerMode::STRIPED, 4),
            500'000'000);
  EXPECT_EQ(CountSlots(layout, buckets, 4096, ParameterServerMode::SINGLE), 100'000);
  EXPECT_EQ(CountSlots(layout, buckets, 4096, ParameterServerMode::BY_TENSOR_SIZE, 4),
            500'000'000);
}

}  // namespace
}  // namespace psring
