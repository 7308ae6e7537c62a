#include "common/layout.h"

#include <vector>

#include "common/slot_plan.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"

namespace psring {
namespace {

using testing::ElementsAre;
using testing::IsEmpty;

ParameterLayout MakeLayout(const std::vector<int64_t>& counts) {
  ParameterLayout layout;
  for (const int64_t count : counts) layout.Add("t", {count});
  return layout;
}

// Buckets cover the buffer once, from its end to its beginning, and each is a run of
// whole tensors.
void ExpectWellFormed(const ParameterLayout& layout, const BucketPlan& plan) {
  int64_t end = layout.count();
  for (const Bucket& bucket : plan.buckets) {
    EXPECT_EQ(bucket.index, &bucket - plan.buckets.data());
    EXPECT_EQ(bucket.range.end(), end);
    int64_t count = 0;
    for (int t = bucket.first_tensor; t < bucket.first_tensor + bucket.tensor_count;
         ++t) {
      EXPECT_EQ(plan.bucket_of_tensor[t], bucket.index);
      count += layout.tensors()[t].range.count;
    }
    EXPECT_EQ(bucket.range.count, count);
    EXPECT_EQ(bucket.range.begin, layout.tensors()[bucket.first_tensor].range.begin);
    end = bucket.range.begin;
  }
  EXPECT_EQ(end, 0);
}

TEST(ParameterLayoutTest, TensorsLieBehindEachOther) {
  ParameterLayout layout;
  layout.Add("weight", {3, 4});
  layout.Add("bias", {4});
  EXPECT_EQ(layout.count(), 16);
  EXPECT_EQ(layout.bytes(), 64);
  EXPECT_EQ(layout.tensors()[1].range, (Range{.begin = 12, .count = 4}));
}

TEST(BucketPlanTest, ClosesBeforeTheCapAndKeepsTheFirstSmaller) {
  const ParameterLayout layout = MakeLayout({10, 6, 4, 2, 2});
  const BucketPlan plan =
      PlanBuckets(layout, /*cap_bytes=*/10 * 4, /*first_cap_bytes=*/4 * 4);
  ExpectWellFormed(layout, plan);
  std::vector<int64_t> counts;
  for (const Bucket& bucket : plan.buckets) counts.push_back(bucket.range.count);
  EXPECT_THAT(counts, ElementsAre(4, 10, 10));
}

TEST(BucketPlanTest, ATensorLargerThanTheCapIsABucketAlone) {
  const ParameterLayout layout = MakeLayout({5, 1000, 5});
  const BucketPlan plan = PlanBuckets(layout, 64, 64);
  ExpectWellFormed(layout, plan);
  EXPECT_EQ(plan.buckets.size(), 3);
  EXPECT_EQ(plan.buckets[1].range.count, 1000);
}

TEST(BucketPlanTest, EveryCapGivesAWellFormedPlan) {
  const ParameterLayout layout = MakeLayout({7, 0, 3, 12, 1, 0, 5});
  for (int64_t cap = 4; cap <= 200; cap += 4) {
    for (int64_t first = 4; first <= cap; first += 12) {
      ExpectWellFormed(layout, PlanBuckets(layout, cap, first));
    }
  }
}

TEST(BucketPlanTest, NoElementsNoBuckets) {
  EXPECT_THAT(PlanBuckets(ParameterLayout(), 4, 4).buckets, IsEmpty());
  EXPECT_THAT(PlanBuckets(MakeLayout({0, 0}), 4, 4).buckets, IsEmpty());
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

}  // namespace
}  // namespace psring
