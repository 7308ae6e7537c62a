#include "ring/ring_schedule.h"

#include <cstdint>
#include <vector>

#include "common/partition.h"
#include "common/ring_order.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"

namespace psring {
namespace {

constexpr int kMaxRanks = 9;
constexpr int64_t kFloatBytes = sizeof(float);

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

RingBytes SumOverHops(int64_t count, int rank, int ranks) {
  RingBytes bytes;
  for (int hop = 0; hop < RingHops(ranks); ++hop) {
    bytes.out +=
        PartitionRange(count, ranks, SentChunk(rank, hop, ranks)).count * kFloatBytes;
    bytes.in +=
        PartitionRange(count, ranks, ReceivedChunk(rank, hop, ranks)).count * kFloatBytes;
  }
  return bytes;
}

TEST(RingScheduleTest, AllReduceBytesAreTheSumOverHops) {
  for (int ranks = 1; ranks <= kMaxRanks; ++ranks) {
    std::vector<int64_t> counts = {1'000'003, (int64_t{1} << 31) + 5,
                                   (int64_t{1} << 40) + 7};
    for (int64_t count = 0; count <= 2 * ranks + 3; ++count) counts.push_back(count);
    for (const int64_t count : counts) {
      for (int rank = 0; rank < ranks; ++rank) {
        EXPECT_EQ(AllReduceBytes(count, rank, ranks), SumOverHops(count, rank, ranks))
            << count << " elements, rank " << rank << " of " << ranks;
      }
    }
  }
}

TEST(RingScheduleTest, WhatIsSentIsReceived) {
  for (int ranks = 1; ranks <= kMaxRanks; ++ranks) {
    for (int64_t count = 0; count <= 2 * ranks + 3; ++count) {
      for (int rank = 0; rank < ranks; ++rank) {
        const int right = RightOf(rank, ranks);
        EXPECT_EQ(AllReduceBytes(count, rank, ranks).out,
                  AllReduceBytes(count, right, ranks).in);
        EXPECT_EQ(BroadcastBytes(count, rank, ranks).out,
                  BroadcastBytes(count, right, ranks).in);
      }
    }
  }
}

TEST(RingScheduleTest, BytesOfKnownCases) {
  EXPECT_EQ(AllReduceBytes(100, 0, 1), RingBytes{});
  EXPECT_EQ(AllReduceBytes(100, 3, 4), (RingBytes{.out = 600, .in = 600}));
  // Chunks of 2, 1, 1 elements.
  EXPECT_EQ(AllReduceBytes(4, 0, 3), (RingBytes{.out = 20, .in = 20}));
  EXPECT_EQ(AllReduceBytes(4, 1, 3), (RingBytes{.out = 24, .in = 20}));
  EXPECT_EQ(AllReduceBytes(4, 2, 3), (RingBytes{.out = 20, .in = 24}));
  EXPECT_EQ(BroadcastBytes(100, 0, 1), RingBytes{});
  EXPECT_EQ(BroadcastBytes(100, 0, 3), (RingBytes{.out = 400, .in = 0}));
  EXPECT_EQ(BroadcastBytes(100, 1, 3), (RingBytes{.out = 400, .in = 400}));
  EXPECT_EQ(BroadcastBytes(100, 2, 3), (RingBytes{.out = 0, .in = 400}));
}

}  // namespace
}  // namespace psring
