#include "ring/algorithm.h"

#include <algorithm>
#include <bit>
#include <cstdint>
#include <deque>
#include <map>
#include <random>
#include <string>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "common/partition.h"
#include "common/ring_order.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"

namespace psring {
namespace {

constexpr int kMaxRanks = 9;
constexpr int64_t kLarge = kDoublingBytes / int64_t{sizeof(float)} + 1;
constexpr OperationKind kKinds[] = {OperationKind::kAllReduce,
                                    OperationKind::kReduceScatter,
                                    OperationKind::kAllGather, OperationKind::kBroadcast};

// Tells rank and index, and does not add up exactly.
float Term(int rank, int64_t index) {
  const float magnitude =
      static_cast<float>(rank + 1) * 1000.1f + static_cast<float>(index) * 0.37f;
  return (rank + index) % 2 == 0 ? magnitude : -magnitude / 3.0f;
}
// Adds up exactly.
float WholeTerm(int rank, int64_t index) {
  return static_cast<float>((rank + 1) * 100 + index % 64);
}

// All ranks' moves at once, in an order of events that a seed decides: whatever may
// happen may happen next. Elements instead of bytes.
class Simulation {
 public:
  Simulation(Algorithm algorithm, OperationKind kind, int64_t count, int ranks,
             float (*term)(int, int64_t), uint32_t seed)
      : ranks_(ranks), random_(seed), lists_(ranks), done_(ranks), values(ranks) {
    for (int rank = 0; rank < ranks; ++rank) {
      AppendMoves(algorithm, kind, count, rank, ranks, &lists_[rank]);
      EXPECT_LE(lists_[rank].size(), MostMoves(ranks));
      done_[rank].resize(lists_[rank].size());
      for (int64_t i = 0; i < count; ++i) values[rank].push_back(term(rank, i));
    }
  }

  // False where ranks wait for each other, or something is left on its way.
  bool Run() {
    for (bool moved = true; moved;) {
      moved = false;
      std::vector<std::pair<int, int>> turns;
      for (int rank = 0; rank < ranks_; ++rank) {
        for (int i = 0; i < lists_[rank].size(); ++i) turns.emplace_back(rank, i);
      }
      std::ranges::shuffle(turns, random_);
      for (const auto& [rank, move] : turns) moved |= Step(rank, move);
    }
    for (int rank = 0; rank < ranks_; ++rank) {
      for (int i = 0; i < lists_[rank].size(); ++i) {
        if (done_[rank][i] != lists_[rank][i].range.count) return false;
      }
    }
    return std::ranges::all_of(links_,
                               [](const auto& link) { return link.second.empty(); });
  }

 private:
  static bool Sends(const Move& move) {
    return move.kind == MoveKind::kSend || move.kind == MoveKind::kAcknowledge;
  }

  bool Step(int rank, int index) {
    const MoveList& list = lists_[rank];
    const Move& move = list[index];
    int64_t& done = done_[rank][index];
    // The next of its stream?
    for (int i = 0; i < index; ++i) {
      if (list[i].peer == move.peer && Sends(list[i]) == Sends(move) &&
          done_[rank][i] < list[i].range.count) {
        return false;
      }
    }
    auto& link =
        links_[Sends(move) ? std::pair(rank, move.peer) : std::pair(move.peer, rank)];
    int64_t most = move.range.count - done;
    if (!Sends(move)) most = std::min(most, static_cast<int64_t>(link.size()));
    if (most == 0) return false;
    most = std::uniform_int_distribution<int64_t>(1, most)(random_);
    int64_t moved = 0;
    for (; moved < most && MayDeal(rank, index, move.range.begin + done); ++moved) {
      float& value = values[rank][move.range.begin + done++];
      if (Sends(move)) {
        link.push_back(value);
        continue;
      }
      value = move.kind == MoveKind::kAdd ? value + link.front() : link.front();
      link.pop_front();
    }
    return moved > 0;
  }

  bool MayDeal(int rank, int index, int64_t element) const {
    const MoveList& list = lists_[rank];
    for (int i = list[index].since; i < index; ++i) {
      const Range range = list[i].range;
      if (Sends(list[i]) && Sends(list[index])) continue;
      if (element >= range.begin + done_[rank][i] && element < range.end() &&
          element >= range.begin) {
        return false;
      }
    }
    return true;
  }

  const int ranks_;
  std::mt19937 random_;
  std::vector<MoveList> lists_;
  std::vector<std::vector<int64_t>> done_;
  std::map<std::pair<int, int>, std::deque<float>> links_;

 public:
  std::vector<std::vector<float>> values;
};

std::vector<uint32_t> Bits(const std::vector<float>& values, Range range) {
  std::vector<uint32_t> bits;
  for (int64_t i = range.begin; i < range.end(); ++i) {
    bits.push_back(std::bit_cast<uint32_t>(values[i]));
  }
  return bits;
}

class AlgorithmTest : public testing::TestWithParam<Algorithm> {
 protected:
  static std::vector<int64_t> Counts(int ranks) {
    return {0, 1, ranks - 1, ranks, ranks + 1, 2 * ranks + 3, 97, kLarge + ranks};
  }
  // Where the result of the operation is.
  static Range Result(OperationKind kind, int64_t count, int position, int ranks) {
    return kind == OperationKind::kReduceScatter ? PartitionRange(count, ranks, position)
                                                 : Range{.begin = 0, .count = count};
  }
};

TEST_P(AlgorithmTest, EveryOperationGivesItsResult) {
  for (int ranks = 1; ranks <= kMaxRanks; ++ranks) {
    for (const OperationKind kind : kKinds) {
      for (const int64_t count : Counts(ranks)) {
        SCOPED_TRACE(absl::StrCat(ranks, " ranks, kind ", static_cast<int>(kind), ", ",
                                  count, " elements"));
        Simulation simulation(GetParam(), kind, count, ranks, &WholeTerm, 1);
        ASSERT_TRUE(simulation.Run());
        for (int position = 0; position < ranks; ++position) {
          const Range result = Result(kind, count, position, ranks);
          for (int64_t i = result.begin; i < result.end(); ++i) {
            float expected = 0;
            if (kind == OperationKind::kBroadcast) {
              expected = WholeTerm(0, i);
            } else if (kind == OperationKind::kAllGather) {
              int owner = 0;
              while (PartitionRange(count, ranks, owner).end() <= i) ++owner;
              expected = WholeTerm(owner, i);
            } else {
              for (int rank = 0; rank < ranks; ++rank) expected += WholeTerm(rank, i);
            }
            ASSERT_EQ(simulation.values[position][i], expected)
                << "position " << position << ", element " << i;
          }
        }
      }
    }
  }
}

// Sums do not add up exactly here, so that any other order of additions shows.
TEST_P(AlgorithmTest, AllPositionsHaveTheSameBitsWhateverTheOrderOfEvents) {
  for (int ranks = 2; ranks <= kMaxRanks; ++ranks) {
    for (const int64_t count : {int64_t{2} * ranks + 3, kLarge + ranks}) {
      std::vector<uint32_t> first;
      for (uint32_t seed = 0; seed < 8; ++seed) {
        Simulation simulation(GetParam(), OperationKind::kAllReduce, count, ranks, &Term,
                              seed);
        ASSERT_TRUE(simulation.Run());
        const Range all = {.begin = 0, .count = count};
        if (seed == 0) first = Bits(simulation.values[0], all);
        for (int position = 0; position < ranks; ++position) {
          ASSERT_TRUE(Bits(simulation.values[position], all) == first)
              << ranks << " ranks, " << count << " elements, seed " << seed
              << ", position " << position;
        }
      }
    }
  }
}

OperationBytes SumOfMoves(const MoveList& moves) {
  OperationBytes bytes;
  for (int i = 0; i < moves.size(); ++i) {
    const bool out = moves[i].kind == MoveKind::kSend;
    (out ? bytes.out : bytes.in) += moves[i].range.count * int64_t{sizeof(float)};
  }
  return bytes;
}

TEST_P(AlgorithmTest, TheFormulaIsTheSumOfTheMoves) {
  for (int ranks = 1; ranks <= 17; ++ranks) {
    std::vector<int64_t> counts = Counts(ranks);
    counts.insert(counts.end(),
                  {1'000'003, (int64_t{1} << 31) + 5, (int64_t{1} << 40) + 7});
    for (const OperationKind kind : kKinds) {
      for (const int64_t count : counts) {
        for (int position = 0; position < ranks; ++position) {
          MoveList moves;
          AppendMoves(GetParam(), kind, count, position, ranks, &moves);
          EXPECT_EQ(PayloadBytes(GetParam(), kind, count, position, ranks),
                    SumOfMoves(moves))
              << count << " elements, position " << position << " of " << ranks
              << ", kind " << static_cast<int>(kind);
        }
      }
    }
  }
}

// Beyond 2^31 elements too: a sender's moves and a receiver's are the same stream.
TEST_P(AlgorithmTest, WhatIsSentIsReceived) {
  for (int ranks = 2; ranks <= kMaxRanks; ++ranks) {
    for (const OperationKind kind : kKinds) {
      for (const int64_t count : {int64_t{5}, (int64_t{1} << 33) + 11}) {
        std::map<std::pair<int, int>, int64_t> sent, received;
        for (int position = 0; position < ranks; ++position) {
          MoveList moves;
          AppendMoves(GetParam(), kind, count, position, ranks, &moves);
          const auto linked = LinkedPositions(GetParam(), position, ranks);
          for (int i = 0; i < moves.size(); ++i) {
            const Move& move = moves[i];
            EXPECT_THAT(linked, testing::Contains(move.peer));
            EXPECT_TRUE(move.range.begin >= 0 && move.range.end() <= count);
            const bool sends =
                move.kind == MoveKind::kSend || move.kind == MoveKind::kAcknowledge;
            (sends ? sent[{position, move.peer}] : received[{move.peer, position}]) +=
                move.range.count;
          }
        }
        EXPECT_EQ(sent, received);
      }
    }
  }
}

// Where a count is a multiple of the ranks all chunks are alike, so that 2^20 times as
// many elements make the same moves, 2^20 times as far and long.
TEST_P(AlgorithmTest, IndicesAndFormulasHoldPast2To31Elements) {
  constexpr int64_t kTimes = int64_t{1} << 20;
  for (int ranks = 2; ranks <= 17; ++ranks) {
    const int64_t few = ranks * (kLarge / ranks + 1);  // Sums of few elements are others.
    const int64_t many = few * kTimes;
    ASSERT_GT(many, int64_t{1} << 31);
    for (const OperationKind kind : kKinds) {
      for (int position = 0; position < ranks; ++position) {
        SCOPED_TRACE(absl::StrCat("position ", position, " of ", ranks, ", kind ",
                                  static_cast<int>(kind)));
        MoveList of_few, of_many;
        AppendMoves(GetParam(), kind, few, position, ranks, &of_few);
        AppendMoves(GetParam(), kind, many, position, ranks, &of_many);
        ASSERT_EQ(of_many.size(), of_few.size());
        for (int i = 0; i < of_few.size(); ++i) {
          EXPECT_EQ(of_many[i].kind, of_few[i].kind);
          EXPECT_EQ(of_many[i].peer, of_few[i].peer);
          EXPECT_EQ(of_many[i].since, of_few[i].since);
          EXPECT_EQ(of_many[i].range.begin, of_few[i].range.begin * kTimes);
          EXPECT_EQ(of_many[i].range.count, of_few[i].range.count * kTimes);
        }
        const auto bytes = [&](int64_t count) {
          return PayloadBytes(GetParam(), kind, count, position, ranks);
        };
        EXPECT_EQ(bytes(many).out, bytes(few).out * kTimes);
        EXPECT_EQ(bytes(many).in, bytes(few).in * kTimes);
      }
    }
  }
}

INSTANTIATE_TEST_SUITE_P(All, AlgorithmTest,
                         testing::Values(RingMode::RING, RingMode::HALVING_DOUBLING,
                                         RingMode::TREE, RingMode::GATHER_BROADCAST),
                         [](const auto& info) {
                           return RingMode::Algorithm_Name(info.param);
                         });

TEST(AlgorithmBytesTest, BytesOfKnownCases) {
  const auto bytes = [](Algorithm algorithm, OperationKind kind, int64_t count,
                        int position, int ranks) {
    return PayloadBytes(algorithm, kind, count, position, ranks);
  };
  using Bytes = OperationBytes;
  constexpr auto kSum = OperationKind::kAllReduce;
  EXPECT_EQ(bytes(RingMode::RING, kSum, 100, 0, 1), Bytes{});
  EXPECT_EQ(bytes(RingMode::RING, kSum, 100, 3, 4), (Bytes{.out = 600, .in = 600}));
  // Chunks of 2, 1, 1 elements.
  EXPECT_EQ(bytes(RingMode::RING, kSum, 4, 0, 3), (Bytes{.out = 20, .in = 20}));
  EXPECT_EQ(bytes(RingMode::RING, kSum, 4, 1, 3), (Bytes{.out = 24, .in = 20}));
  EXPECT_EQ(bytes(RingMode::RING, OperationKind::kBroadcast, 100, 2, 3),
            (Bytes{.out = 0, .in = 400}));
  // The hot spot.
  EXPECT_EQ(bytes(RingMode::GATHER_BROADCAST, kSum, 100, 0, 4),
            (Bytes{.out = 1200, .in = 1200}));
  EXPECT_EQ(bytes(RingMode::GATHER_BROADCAST, kSum, 100, 3, 4),
            (Bytes{.out = 400, .in = 400}));
  EXPECT_EQ(bytes(RingMode::TREE, kSum, 100, 2, 4), (Bytes{.out = 800, .in = 800}));
  // Small: two exchanges of everything. Large: as the ring.
  EXPECT_EQ(bytes(RingMode::HALVING_DOUBLING, kSum, 100, 1, 4),
            (Bytes{.out = 800, .in = 800}));
  EXPECT_EQ(bytes(RingMode::HALVING_DOUBLING, kSum, 1 << 20, 1, 4),
            bytes(RingMode::RING, kSum, 1 << 20, 1, 4));
}

TEST(AlgorithmBytesTest, WhoIsLinked) {
  using testing::ElementsAre;
  EXPECT_THAT(LinkedPositions(RingMode::RING, 0, 1), ElementsAre());
  EXPECT_THAT(LinkedPositions(RingMode::RING, 0, 2), ElementsAre(1));
  EXPECT_THAT(LinkedPositions(RingMode::RING, 0, 5), ElementsAre(1, 4));
  EXPECT_THAT(LinkedPositions(RingMode::HALVING_DOUBLING, 0, 8), ElementsAre(1, 2, 4));
  EXPECT_THAT(LinkedPositions(RingMode::TREE, 4, 8), ElementsAre(0, 5, 6));
  EXPECT_THAT(LinkedPositions(RingMode::GATHER_BROADCAST, 0, 4), ElementsAre(1, 2, 3));
  EXPECT_THAT(LinkedPositions(RingMode::GATHER_BROADCAST, 3, 4), ElementsAre(0));
}

}  // namespace
}  // namespace psring
