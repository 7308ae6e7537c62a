#include "ring/ring_schedule.h"

#include <vector>

#include "common/ring_order.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"

namespace psring {
namespace {

constexpr int kMaxRanks = 9;

TEST(RingScheduleTest, NeighboursAreInverse) {
  for (int ranks = 1; ranks <= kMaxRanks; ++ranks) {
    for (int rank = 0; rank < ranks; ++rank) {
      EXPECT_EQ(RightOf(LeftOf(rank, ranks), ranks), rank);
      EXPECT_EQ(RightOf(rank, ranks), (rank + 1) % ranks);
    }
  }
}

TEST(RingScheduleTest, WhatARankSendsItsRightReceives) {
  for (int ranks = 2; ranks <= kMaxRanks; ++ranks) {
    for (int rank = 0; rank < ranks; ++rank) {
      for (int hop = 0; hop < RingHops(ranks); ++hop) {
        EXPECT_EQ(SentChunk(rank, hop, ranks),
                  ReceivedChunk(RightOf(rank, ranks), hop, ranks));
      }
    }
  }
}

TEST(RingScheduleTest, ARankSendsWhatItReceivedInTheHopBefore) {
  for (int ranks = 2; ranks <= kMaxRanks; ++ranks) {
    for (int rank = 0; rank < ranks; ++rank) {
      for (int hop = 0; hop + 1 < RingHops(ranks); ++hop) {
        EXPECT_EQ(SentChunk(rank, hop + 1, ranks), ReceivedChunk(rank, hop, ranks));
      }
    }
  }
}

// The whole ring with lists of terms instead of sums: hop by hop, all ranks at once.
TEST(RingScheduleTest, EveryRankEndsWithEveryTermOnceInFoldOrder) {
  using Terms = std::vector<int>;  // Ranks, in the order in which they were added.
  for (int ranks = 2; ranks <= kMaxRanks; ++ranks) {
    std::vector<std::vector<Terms>> held(ranks);  // By rank and chunk.
    for (int rank = 0; rank < ranks; ++rank) held[rank].assign(ranks, {rank});
    for (int hop = 0; hop < RingHops(ranks); ++hop) {
      const auto before = held;
      for (int rank = 0; rank < ranks; ++rank) {
        const int chunk = ReceivedChunk(rank, hop, ranks);
        Terms received = before[LeftOf(rank, ranks)][chunk];
        if (hop < ReduceScatterHops(ranks)) received.push_back(rank);
        held[rank][chunk] = received;
      }
    }
    for (int chunk = 0; chunk < ranks; ++chunk) {
      Terms order;
      for (int position = 0; position < ranks; ++position) {
        order.push_back(RingFoldRank(chunk, position, ranks));
      }
      for (int rank = 0; rank < ranks; ++rank) {
        EXPECT_EQ(held[rank][chunk], order)
            << "rank " << rank << " of " << ranks << ", chunk " << chunk;
      }
    }
  }
}

}  // namespace
}  // namespace psring
