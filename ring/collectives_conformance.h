// What all collectives must do, in every algorithm and over every transport. A test
// includes this and adds
//
//   INSTANTIATE_TEST_SUITE_P(Name, CollectivesTest, CollectivesOver({{"Name", &Makes}}),
//                            CollectivesTestName);
#ifndef PSRING_RING_COLLECTIVES_CONFORMANCE_H_
#define PSRING_RING_COLLECTIVES_CONFORMANCE_H_

#include <algorithm>
#include <atomic>
#include <bit>
#include <cstdint>
#include <memory>
#include <string>
#include <tuple>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "common/partition.h"
#include "common/ring_order.h"
#include "common/status_macros.h"
#include "common/status_matchers.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "ring/algorithm.h"
#include "ring/collectives_test_util.h"
#include "ring/ring_test_util.h"
#include "ring/transport_collectives.h"

namespace psring {

// Tells rank and index, does not add up exactly, and is -0 on every rank at times.
inline float Term(int rank, int64_t index) {
  if (index % 17 == 3) return -0.0f;
  const float magnitude =
      static_cast<float>(rank + 1) * 1000.1f + static_cast<float>(index) * 0.37f;
  return (rank + index) % 2 == 0 ? magnitude : -magnitude / 3.0f;
}

inline std::vector<float> Terms(int rank, int64_t count) {
  std::vector<float> terms(count);
  for (int64_t i = 0; i < count; ++i) terms[i] = Term(rank, i);
  return terms;
}

// In the order of a ring's chunk of that element, or of its last chunk for all.
inline std::vector<float> Fold(const RingOrder& order, int64_t count, bool last_chunk) {
  std::vector<float> sums(count);
  for (int chunk = 0; chunk < order.ranks(); ++chunk) {
    const Range range = PartitionRange(count, order.ranks(), chunk);
    const int fold = last_chunk ? order.ranks() - 1 : chunk;
    for (int64_t i = range.begin; i < range.end(); ++i) {
      sums[i] = Term(order.FoldRank(fold, 0), i);
      for (int term = 1; term < order.ranks(); ++term) {
        sums[i] = sums[i] + Term(order.FoldRank(fold, term), i);
      }
    }
  }
  return sums;
}

inline std::vector<uint32_t> Bits(const std::vector<float>& values) {
  std::vector<uint32_t> bits(values.size());
  std::ranges::transform(values, bits.begin(),
                         [](float value) { return std::bit_cast<uint32_t>(value); });
  return bits;
}
inline std::vector<uint32_t> Bits(const std::vector<float>& values, Range range) {
  return Bits(
      std::vector<float>(values.begin() + range.begin, values.begin() + range.end()));
}

using Collective = absl::Status (Collectives::*)(OperationTag, Elements);

class CollectivesTest : public testing::TestWithParam<std::tuple<Algorithm, Over>> {
 protected:
  static Algorithm algorithm() { return std::get<0>(GetParam()); }
  static bool narrow() { return std::get<1>(GetParam()).narrow; }
  static auto Make(const CollectiveOptions& options) {
    return MakeCollectives(std::get<1>(GetParam()).make(options.order.ranks()), options);
  }
  static CollectiveOptions Options(RingOrder order) {
    return {.order = std::move(order), .algorithm = algorithm()};
  }
  // Halving-doubling's other way of summing begins beyond 16 Ki elements.
  static std::vector<int64_t> Counts(int ranks) {
    std::vector<int64_t> counts = {0, 1, ranks - 1, ranks, ranks + 1, 97, 1009};
    if (!narrow()) counts.push_back(100'003);
    return counts;
  }

  // Every rank's values after an operation on its terms, shifted by a float from where
  // they would be aligned.
  using AllCollectives = std::vector<std::unique_ptr<TransportCollectives>>;
  static std::vector<std::vector<float>> Results(const AllCollectives& collectives,
                                                 const RingOrder& order,
                                                 Collective collective, int64_t count) {
    std::vector<std::vector<float>> values(order.ranks());
    const auto statuses = RunRanks(order.ranks(), [&](int rank) {
      values[rank] = Terms(rank, count);
      values[rank].insert(values[rank].begin(), 7.0f);
      values[rank].push_back(9.0f);
      return (collectives[rank].get()->*collective)(
          kTag, SpanOf(values[rank]).Slice({.begin = 1, .count = count}));
    });
    EXPECT_THAT(statuses, testing::Each(IsOk()));
    for (std::vector<float>& result : values) {
      EXPECT_EQ(result.front(), 7.0f);
      EXPECT_EQ(result.back(), 9.0f);
      result = {result.begin() + 1, result.end() - 1};
    }
    return values;
  }
};

TEST_P(CollectivesTest, FoldOrder) {
  for (const int ranks : {1, 2, 3, 5, 8}) {
    for (const RingOrder& order : {RingOrder(ranks), Backwards(ranks)}) {
      for (const int64_t count : Counts(ranks)) {
        SCOPED_TRACE(absl::StrCat(count, " elements, ", ranks, " ranks"));
        // Where the algorithm's order has no formula here, the same ranks without a
        // network show it.
        const std::vector<float> expected =
            algorithm() == RingMode::RING ? Fold(order, count, /*last_chunk=*/false)
            : algorithm() == RingMode::GATHER_BROADCAST
                ? Fold(order, count, /*last_chunk=*/true)
                : Results(MakeCollectives(TransportKind::kInProcess, Options(order)),
                          order, &Collectives::AllReduce, count)[0];
        const auto sums =
            Results(Make(Options(order)), order, &Collectives::AllReduce, count);
        const auto parts =
            Results(Make(Options(order)), order, &Collectives::ReduceScatter, count);
        for (int rank = 0; rank < ranks; ++rank) {
          ASSERT_TRUE(Bits(sums[rank]) == Bits(expected)) << "rank " << rank;
          if (algorithm() == RingMode::HALVING_DOUBLING) continue;  // Two orders.
          const Range chunk = PartitionRange(count, ranks, order.PositionOf(rank));
          ASSERT_EQ(Bits(parts[rank], chunk), Bits(expected, chunk)) << "rank " << rank;
        }
      }
    }
  }
}

TEST_P(CollectivesTest, ReduceScatterThenAllGatherIsTheSum) {
  constexpr int kRanks = 5;
  const auto collectives = Make(Options(Backwards(kRanks)));
  // Large enough that halving-doubling sums in the same order.
  const int64_t count = narrow() ? 1009 : 100'003;
  std::vector<std::vector<float>> once(kRanks), twice(kRanks);
  const auto statuses = RunRanks(kRanks, [&](int rank) -> absl::Status {
    once[rank] = twice[rank] = Terms(rank, count);
    RETURN_IF_ERROR(collectives[rank]->AllReduce(kTag, SpanOf(once[rank])));
    RETURN_IF_ERROR(collectives[rank]->ReduceScatter(kTag, SpanOf(twice[rank])));
    return collectives[rank]->AllGather(kTag, SpanOf(twice[rank]));
  });
  ASSERT_THAT(statuses, testing::Each(IsOk()));
  for (int rank = 0; rank < kRanks; ++rank) {
    EXPECT_TRUE(Bits(twice[rank]) == Bits(twice[0])) << "rank " << rank;
    if (algorithm() == RingMode::HALVING_DOUBLING && count == 1009) continue;
    EXPECT_TRUE(Bits(once[rank]) == Bits(twice[rank])) << "rank " << rank;
  }
}

TEST_P(CollectivesTest, AllGatherGivesEveryRankEveryChunk) {
  for (const int ranks : {1, 2, 3, 5, 8}) {
    const RingOrder order = Backwards(ranks);
    for (const int64_t count : Counts(ranks)) {
      const auto values =
          Results(Make(Options(order)), order, &Collectives::AllGather, count);
      for (int position = 0; position < ranks; ++position) {
        const Range chunk = PartitionRange(count, ranks, position);
        const auto expected = Bits(Terms(order.RankAt(position), count), chunk);
        for (int rank = 0; rank < ranks; ++rank) {
          ASSERT_EQ(Bits(values[rank], chunk), expected)
              << count << " elements, rank " << rank << " of " << ranks;
        }
      }
    }
  }
}

TEST_P(CollectivesTest, BroadcastGivesEveryRankTheFirstOnesValues) {
  for (const int ranks : {1, 2, 3, 5, 8}) {
    const auto collectives = Make(Options(Backwards(ranks)));
    for (const int64_t count : Counts(ranks)) {
      std::vector<std::vector<float>> values(ranks);
      for (int rank = 0; rank < ranks; ++rank) values[rank] = Terms(rank, count);
      const auto statuses = RunRanks(ranks, [&](int rank) {
        return collectives[rank]->Broadcast(SpanOf(values[rank]));
      });
      ASSERT_THAT(statuses, testing::Each(IsOk()));
      for (int rank = 0; rank < ranks; ++rank) {
        ASSERT_EQ(Bits(values[rank]), Bits(Terms(0, count)))
            << "rank " << rank << " of " << ranks;
      }
    }
  }
}

TEST_P(CollectivesTest, NobodyPassesABarrierBeforeAllHaveCome) {
  constexpr int kRanks = 5;
  constexpr int kRounds = 20;
  const auto collectives = Make(Options(Backwards(kRanks)));
  std::vector<std::atomic<int>> round(kRanks);
  const auto statuses = RunRanks(kRanks, [&](int rank) -> absl::Status {
    for (int i = 1; i <= kRounds; ++i) {
      round[rank] = i;
      RETURN_IF_ERROR(collectives[rank]->Barrier());
      for (const auto& other : round) EXPECT_GE(other.load(), i);
    }
    return absl::OkStatus();
  });
  EXPECT_THAT(statuses, testing::Each(IsOk()));
  for (const auto& own : collectives) EXPECT_EQ(own->traffic().payload_out, 0);
}

TEST_P(CollectivesTest, ARankMayLeaveAsSoonAsItHasItsSums) {
  constexpr int kRanks = 5;
  const int64_t count = Counts(kRanks).back();
  auto collectives = Make(Options(RingOrder(kRanks)));
  std::vector<std::vector<float>> values(kRanks);
  const auto statuses = RunRanks(kRanks, [&](int rank) {
    values[rank] = Terms(rank, count);
    const absl::Status status = collectives[rank]->AllReduce(kTag, SpanOf(values[rank]));
    if (rank % 2 == 0) collectives[rank]->Abort(absl::CancelledError("done"));
    collectives[rank].reset();
    return status;
  });
  ASSERT_THAT(statuses, testing::Each(IsOk()));
  for (int rank = 1; rank < kRanks; ++rank) {
    EXPECT_TRUE(Bits(values[rank]) == Bits(values[0])) << "rank " << rank;
  }
}

TEST_P(CollectivesTest, PayloadIsTheFormula) {
  for (const int ranks : {1, 2, 3, 5, 8}) {
    const RingOrder order = Backwards(ranks);
    const auto collectives = Make(Options(order));
    std::vector<OperationBytes> steps(ranks), initial(ranks);
    for (const int64_t count : Counts(ranks)) {
      const auto statuses = RunRanks(ranks, [&](int rank) -> absl::Status {
        std::vector<float> values = Terms(rank, count);
        Collectives& own = *collectives[rank];
        RETURN_IF_ERROR(own.Broadcast(SpanOf(values)));
        RETURN_IF_ERROR(own.AllReduce(kTag, SpanOf(values)));
        RETURN_IF_ERROR(own.ReduceScatter(kTag, SpanOf(values)));
        return own.AllGather(kTag, SpanOf(values));
      });
      ASSERT_THAT(statuses, testing::Each(IsOk()));
      for (int rank = 0; rank < ranks; ++rank) {
        const auto add = [&](OperationBytes& to, OperationKind kind) {
          const OperationBytes bytes =
              PayloadBytes(algorithm(), kind, count, order.PositionOf(rank), ranks);
          to = {.out = to.out + bytes.out, .in = to.in + bytes.in};
        };
        add(initial[rank], OperationKind::kBroadcast);
        add(steps[rank], OperationKind::kAllReduce);
        add(steps[rank], OperationKind::kReduceScatter);
        add(steps[rank], OperationKind::kAllGather);
        const ExchangeTraffic traffic = collectives[rank]->traffic();
        EXPECT_EQ(traffic.payload_out, steps[rank].out);
        EXPECT_EQ(traffic.payload_in, steps[rank].in);
        EXPECT_EQ(traffic.initial_out, initial[rank].out);
        EXPECT_EQ(traffic.initial_in, initial[rank].in);
        EXPECT_TRUE(traffic.awaiting_bytes && traffic.awaiting_room);
        EXPECT_EQ(traffic.retransmissions.has_value(), traffic.wire_out.has_value());
      }
    }
  }
}

}  // namespace psring

#endif  // PSRING_RING_COLLECTIVES_CONFORMANCE_H_
