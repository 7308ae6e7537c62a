#include "worker/sampler.h"

#include <algorithm>
#include <set>
#include <vector>

#include "gmock/gmock.h"
#include "gtest/gtest.h"

namespace psring {
namespace {

using testing::ElementsAre;
using testing::ElementsAreArray;

std::vector<int64_t> Copy(std::span<const int64_t> indices) {
  return {indices.begin(), indices.end()};
}

// Computed apart, by a program in another language from the published definitions.
TEST(SamplerTest, GoldenValues) {
  Sampler seed1(10, 10, /*seed=*/1);
  EXPECT_THAT(Copy(seed1.GlobalBatch(0)), ElementsAre(3, 5, 2, 8, 0, 6, 4, 1, 7, 9));
  EXPECT_THAT(Copy(seed1.GlobalBatch(1)), ElementsAre(4, 9, 8, 2, 3, 7, 6, 5, 0, 1));
  Sampler seed2(10, 10, /*seed=*/2);
  EXPECT_THAT(Copy(seed2.GlobalBatch(0)), ElementsAre(5, 0, 4, 2, 3, 7, 8, 6, 1, 9));
  Sampler large(60000, 8, /*seed=*/7);
  EXPECT_THAT(Copy(large.GlobalBatch(3 * 7500)),
              ElementsAre(5839, 27018, 25262, 57210, 32241, 21127, 18492, 34550));
}

TEST(SamplerTest, WorkersTogetherHaveTheGlobalBatchForEveryN) {
  Sampler sampler(100, 24, /*seed=*/3);
  for (const int64_t step : {0, 3, 4, 9}) {
    const std::vector<int64_t> whole = Copy(sampler.GlobalBatch(step));
    for (int64_t workers = 1; workers <= 30; ++workers) {
      std::vector<int64_t> joined;
      for (int64_t rank = 0; rank < workers; ++rank) {
        const auto part = sampler.WorkerBatch(step, workers, rank);
        joined.insert(joined.end(), part.begin(), part.end());
      }
      EXPECT_THAT(joined, ElementsAreArray(whole))
          << "step " << step << ", " << workers << " workers";
    }
  }
}

TEST(SamplerTest, AnEpochHasEachSampleAtMostOnceAndLeavesOutThePartialBatch) {
  Sampler sampler(100, 24, /*seed=*/4);
  ASSERT_EQ(sampler.steps_per_epoch(), 4);
  for (int64_t epoch = 0; epoch < 3; ++epoch) {
    std::set<int64_t> seen;
    for (int64_t step = 4 * epoch; step < 4 * (epoch + 1); ++step) {
      for (const int64_t index : sampler.GlobalBatch(step)) {
        EXPECT_TRUE(index >= 0 && index < 100) << index;
        EXPECT_TRUE(seen.insert(index).second) << index << " twice";
      }
    }
    EXPECT_EQ(seen.size(), 96);
  }
}

// 94 samples are three batches of 24, three workers' parts of 6, and 4 that are left out.
TEST(SamplerTest, ALastBatchIsForTheFirstRanks) {
  Sampler sampler(94, 24, /*seed=*/4, /*last_batch=*/18);
  ASSERT_EQ(sampler.steps_per_epoch(), 4);
  Sampler dropping(94, 24, /*seed=*/4);
  for (int64_t epoch = 0; epoch < 3; ++epoch) {
    std::set<int64_t> seen;
    for (int64_t step = 0; step < 4; ++step) {
      const std::vector<int64_t> batch = Copy(sampler.GlobalBatch(4 * epoch + step));
      EXPECT_EQ(batch.size(), step < 3 ? 24 : 18);
      seen.insert(batch.begin(), batch.end());
      if (step < 3) {
        EXPECT_THAT(batch,
                    ElementsAreArray(Copy(dropping.GlobalBatch(3 * epoch + step))));
      }
      std::vector<int64_t> joined;
      for (int64_t rank = 0; rank < 4; ++rank) {
        const auto part = sampler.WorkerBatch(4 * epoch + step, 4, rank);
        EXPECT_EQ(part.size(), step == 3 && rank == 3 ? 0 : 6);
        joined.insert(joined.end(), part.begin(), part.end());
      }
      EXPECT_THAT(joined, ElementsAreArray(batch));
    }
    EXPECT_EQ(seen.size(), 90) << "each at most once";
  }
}

TEST(SamplerTest, JumpingToAStepEqualsWalkingToIt) {
  Sampler walker(50, 7, /*seed=*/5);
  for (int64_t step = 0; step < 40; ++step) {
    Sampler jumper(50, 7, /*seed=*/5);
    EXPECT_THAT(Copy(jumper.GlobalBatch(step)),
                ElementsAreArray(Copy(walker.GlobalBatch(step))))
        << "step " << step;
  }
  // And back again.
  Sampler fresh(50, 7, /*seed=*/5);
  EXPECT_THAT(Copy(walker.GlobalBatch(2)), ElementsAreArray(Copy(fresh.GlobalBatch(2))));
}

TEST(SamplerTest, EpochsAndSeedsDiffer) {
  std::set<std::vector<int64_t>> permutations;
  for (uint64_t seed = 0; seed < 10; ++seed) {
    Sampler sampler(20, 20, seed);
    for (int64_t epoch = 0; epoch < 10; ++epoch) {
      permutations.insert(Copy(sampler.GlobalBatch(epoch)));
    }
  }
  EXPECT_EQ(permutations.size(), 100);
}

// All 6 orders of 3 samples come up about equally often: 1000 of 6000 each, where the
// standard deviation is 29.
TEST(SamplerTest, OrdersAreEquallyLikely) {
  Sampler sampler(3, 3, /*seed=*/6);
  std::vector<int64_t> order = {0, 1, 2};
  std::vector<std::vector<int64_t>> drawn;
  for (int64_t epoch = 0; epoch < 6000; ++epoch) {
    drawn.push_back(Copy(sampler.GlobalBatch(epoch)));
  }
  do {
    EXPECT_NEAR(std::ranges::count(drawn, order), 1000, 130);
  } while (std::ranges::next_permutation(order).found);
}

TEST(SamplerDeathTest, BatchLargerThanTheData) {
  EXPECT_DEATH(Sampler(10, 11, 0), "global batch 11 of 10 samples");
}

}  // namespace
}  // namespace psring
