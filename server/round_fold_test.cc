#include "server/round_fold.h"

#include <algorithm>
#include <bit>
#include <cstdint>
#include <span>
#include <utility>
#include <vector>

#include "common/arithmetic.h"
#include "common/partition.h"
#include "common/ring_order.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"

namespace psring {
namespace {

using testing::ElementsAre;

uint32_t BitsOf(float value) { return std::bit_cast<uint32_t>(value); }

// Values whose sums depend on the order of the additions.
std::vector<float> Term(int rank, int64_t count) {
  std::vector<float> values(count);
  for (int64_t i = 0; i < count; ++i) {
    values[i] = (rank % 2 == 0 ? 1.0f : -1.0f) / static_cast<float>(3 + rank + i) +
                static_cast<float>(rank) * 1e4f;
  }
  return values;
}

std::vector<float> Mean(RoundFold fold, const std::vector<FloatPieces>& terms) {
  std::vector<float> result;
  fold.Mean(terms, [&](int64_t begin, std::span<const float> mean) {
    EXPECT_EQ(begin, static_cast<int64_t>(result.size()));
    result.insert(result.end(), mean.begin(), mean.end());
  });
  return result;
}

std::vector<float> Mean(RoundFold fold, const std::vector<std::vector<float>>& terms) {
  return Mean(fold, std::vector<FloatPieces>(terms.begin(), terms.end()));
}

// One element, one addition at a time.
float SerialMean(const std::vector<std::vector<float>>& terms, int chunk, int64_t i) {
  const int workers = static_cast<int>(terms.size());
  float sum = terms[RingFoldRank(chunk, 0, workers)][i];
  for (int position = 1; position < workers; ++position) {
    sum = sum + terms[RingFoldRank(chunk, position, workers)][i];
  }
  return sum * MeanFactor(workers);
}

TEST(RoundFoldTest, RingOrderFollowsTheChunksOfTheBucketThroughEverySlot) {
  for (const int workers : {1, 2, 3, 5, 8}) {
    for (const int64_t bucket_count : {1, 2, 3, 7, 64, 10007}) {
      for (const int servers : {1, 2, 3, 4}) {
        for (int server = 0; server < servers; ++server) {
          const Range bucket{.begin = 1000, .count = bucket_count};
          Range slot = PartitionRange(bucket_count, servers, server);
          slot.begin += bucket.begin;
          std::vector<std::vector<float>> terms;
          for (int rank = 0; rank < workers; ++rank) {
            terms.push_back(Term(rank, slot.count));
          }
          const std::vector<float> mean =
              Mean(RoundFold(Sync::RING, slot, bucket, RingOrder(workers)), terms);
          ASSERT_EQ(static_cast<int64_t>(mean.size()), slot.count);
          for (int chunk = 0; chunk < workers; ++chunk) {
            const Range part = PartitionRange(bucket_count, workers, chunk);
            for (int64_t i = 0; i < slot.count; ++i) {
              const int64_t in_bucket = slot.begin - bucket.begin + i;
              if (in_bucket < part.begin || in_bucket >= part.end()) continue;
              ASSERT_EQ(BitsOf(mean[i]), BitsOf(SerialMean(terms, chunk, i)))
                  << workers << " workers, bucket of " << bucket_count << ", server "
                  << server << " of " << servers << ", element " << i;
            }
          }
        }
      }
    }
  }
}

// Of three ranks two have had samples: (3 + 5) / 2, and (-1 + 0) / 2.
TEST(RoundFoldTest, RanksWithoutSamplesDoNotCountInTheMean) {
  const std::vector<std::vector<float>> terms = {{3, -1}, {5, 0}, {0, 0}};
  const std::vector<FloatPieces> pieces(terms.begin(), terms.end());
  for (const Sync::Order order : {Sync::RANK, Sync::RING}) {
    const Range all{.begin = 0, .count = 2};
    RoundFold fold(order, all, all, RingOrder(3));
    std::vector<float> result;
    const auto take = [&](int64_t, std::span<float> mean) {
      result.insert(result.end(), mean.begin(), mean.end());
    };
    fold.Mean(pieces, take, /*without_samples=*/1);
    EXPECT_THAT(result, ElementsAre(4, -0.5f));
    result.clear();
    fold.Mean(pieces, take);
    EXPECT_THAT(result, ElementsAre(8 * MeanFactor(3), -1 * MeanFactor(3)));
  }
}

TEST(RoundFoldTest, FollowsTheOrderOfTheRing) {
  const RingOrder ring({0, 2, 3, 1});
  const Range bucket{.begin = 0, .count = 103};
  std::vector<std::vector<float>> terms, by_position;
  for (int rank = 0; rank < 4; ++rank) terms.push_back(Term(rank, bucket.count));
  for (int position = 0; position < 4; ++position) {
    by_position.push_back(terms[ring.RankAt(position)]);
  }
  const RingOrder plain(4);
  const auto expected = Mean(RoundFold(Sync::RING, bucket, bucket, plain), by_position);
  EXPECT_EQ(Mean(RoundFold(Sync::RING, bucket, bucket, ring), terms), expected);
  EXPECT_NE(Mean(RoundFold(Sync::RING, bucket, bucket, plain), terms), expected);
  // The order of ranks is not the ring's.
  EXPECT_EQ(Mean(RoundFold(Sync::RANK, bucket, bucket, ring), terms),
            Mean(RoundFold(Sync::RANK, bucket, bucket, plain), terms));
}

TEST(RoundFoldTest, GradientsInAnyPiecesGiveTheSameBits) {
  const Range bucket{.begin = 0, .count = 5003};
  const Range slot{.begin = 700, .count = 4200};
  RoundFold fold(Sync::RING, slot, bucket, RingOrder(3));
  std::vector<std::vector<float>> terms;
  for (int rank = 0; rank < 3; ++rank) terms.push_back(Term(rank, slot.count));
  const std::vector<float> whole = Mean(fold, terms);
  for (const size_t size : {1, 3, 5, 7, 4096, 16379}) {
    std::vector<FloatPieces> cut;
    for (const auto& term : terms) {
      std::vector<Bytes> pieces;
      for (Bytes left = std::as_bytes(std::span(term)); !left.empty();) {
        pieces.push_back(left.first(std::min(size, left.size())));
        left = left.subspan(pieces.back().size());
      }
      cut.push_back(FloatPieces(std::move(pieces)));
    }
    const std::vector<float> mean = Mean(fold, cut);
    ASSERT_EQ(mean.size(), whole.size());
    for (size_t i = 0; i < mean.size(); ++i) ASSERT_EQ(BitsOf(mean[i]), BitsOf(whole[i]));
  }
}

// Passes of several terms, over blocks and pieces that end anywhere, are one sum.
TEST(RoundFoldTest, AnyNumberOfTermsInAnyPiecesIsTheSerialMean) {
  for (int workers = 1; workers <= 9; ++workers) {
    for (const int64_t count : {1, 5, 2047, 2049, 4999}) {
      const Range all{.begin = 0, .count = count};
      std::vector<std::vector<float>> terms;
      std::vector<FloatPieces> cut;
      for (int rank = 0; rank < workers; ++rank) terms.push_back(Term(rank, count));
      for (int rank = 0; rank < workers; ++rank) {
        std::vector<Bytes> pieces;
        const size_t size = 4093 + 3 * rank;  // Of each rank at other places.
        for (Bytes left = std::as_bytes(std::span(terms[rank])); !left.empty();) {
          pieces.push_back(left.first(std::min(size, left.size())));
          left = left.subspan(pieces.back().size());
        }
        cut.push_back(FloatPieces(std::move(pieces)));
      }
      const std::vector<float> mean =
          Mean(RoundFold(Sync::RING, all, all, RingOrder(workers)), cut);
      ASSERT_EQ(static_cast<int64_t>(mean.size()), count);
      for (int chunk = 0; chunk < workers; ++chunk) {
        const Range part = PartitionRange(count, workers, chunk);
        for (int64_t i = part.begin; i < part.end(); ++i) {
          ASSERT_EQ(BitsOf(mean[i]), BitsOf(SerialMean(terms, chunk, i)))
              << workers << " workers, element " << i << " of " << count;
        }
      }
    }
  }
}

TEST(RoundFoldTest, RankOrderIsTheSameForEveryElement) {
  const Range bucket{.begin = 0, .count = 5000};
  const Range slot{.begin = 10, .count = 4500};
  std::vector<std::vector<float>> terms;
  for (int rank = 0; rank < 3; ++rank) terms.push_back(Term(rank, slot.count));
  const std::vector<float> mean =
      Mean(RoundFold(Sync::RANK, slot, bucket, RingOrder(3)), terms);
  ASSERT_EQ(static_cast<int64_t>(mean.size()), slot.count);
  for (int64_t i = 0; i < slot.count; ++i) {
    const float sum = (terms[0][i] + terms[1][i]) + terms[2][i];
    ASSERT_EQ(BitsOf(mean[i]), BitsOf(sum * MeanFactor(3))) << i;
  }
}

TEST(RoundFoldTest, TheOrdersDiffer) {
  const Range all{.begin = 0, .count = 3};
  // 1e8f + 1 is 1e8f: which rank comes last decides whether the 1 survives.
  const std::vector<std::vector<float>> terms = {
      {1e8f, 1e8f, 1e8f}, {-1e8f, -1e8f, -1e8f}, {1.0f, 1.0f, 1.0f}};
  const float third = MeanFactor(3);
  EXPECT_THAT(Mean(RoundFold(Sync::RANK, all, all, RingOrder(3)), terms),
              ElementsAre(third, third, third));
  // Chunk 0: -1e8 + 1 + 1e8; chunk 1: 1 + 1e8 - 1e8; chunk 2: 1e8 - 1e8 + 1.
  EXPECT_THAT(Mean(RoundFold(Sync::RING, all, all, RingOrder(3)), terms),
              ElementsAre(0.0f, 0.0f, third));
}

TEST(RoundFoldTest, ASumOfNegativeZerosStaysNegative) {
  const Range all{.begin = 0, .count = 2};
  for (const Sync::Order order : {Sync::RANK, Sync::RING}) {
    for (const int workers : {1, 2, 3}) {
      const std::vector<std::vector<float>> terms(workers, {-0.0f, 0.0f});
      const std::vector<float> mean =
          Mean(RoundFold(order, all, all, RingOrder(workers)), terms);
      EXPECT_EQ(BitsOf(mean[0]), BitsOf(-0.0f));
      EXPECT_EQ(BitsOf(mean[1]), BitsOf(0.0f));
    }
  }
}

TEST(RoundFoldTest, RanksWithoutATermAreLeftOutOfTheOrderAndTheNumber) {
  constexpr int kWorkers = 4;
  constexpr int64_t kCount = 10;
  const Range bucket = {.begin = 0, .count = kCount};
  RoundFold fold(Sync::RING, bucket, bucket, RingOrder(kWorkers));
  const std::vector<float> two = Term(2, kCount), three = Term(3, kCount),
                           zero = Term(0, kCount);
  std::vector<FloatPieces> terms(kWorkers);
  terms[0] = zero;
  terms[2] = two;
  terms[3] = three;
  const std::vector<float> mean = Mean(fold, terms);
  for (int64_t i = 0; i < kCount; ++i) {
    int chunk = 0;
    while (i >= PartitionRange(kCount, kWorkers, chunk).end()) ++chunk;
    // From rank chunk + 1 round to rank chunk.
    float sum = 0;
    bool first = true;
    for (int position = 0; position < kWorkers; ++position) {
      const int rank = RingFoldRank(chunk, position, kWorkers);
      if (rank == 1) continue;
      const float term = rank == 0 ? zero[i] : rank == 2 ? two[i] : three[i];
      sum = first ? term : sum + term;
      first = false;
    }
    EXPECT_EQ(BitsOf(mean[i]), BitsOf(sum * MeanFactor(3))) << i;
  }
}

TEST(RoundFoldTest, TheMeanOfOneTermIsItself) {
  const Range bucket = {.begin = 0, .count = 5000};
  RoundFold fold(Sync::RING, bucket, bucket, RingOrder(3));
  const std::vector<float> term = Term(1, 5000);
  std::vector<FloatPieces> terms(3);
  terms[1] = term;
  EXPECT_EQ(Mean(fold, terms), term);
}

}  // namespace
}  // namespace psring
