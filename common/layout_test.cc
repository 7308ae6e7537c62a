#include "common/layout.h"

#include <vector>

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

TEST(ParameterLayoutTest, EveryElementIsFoundInItsTensor) {
  ParameterLayout layout;
  layout.Add("a", {2});
  layout.Add("empty", {0});
  layout.Add("b", {1, 3});
  std::string found;
  for (int64_t i = 0; i < layout.count(); ++i) found += layout.TensorAt(i).name;
  EXPECT_EQ(found, "aabbb");
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

}  // namespace
}  // namespace psring
