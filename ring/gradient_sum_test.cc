// Against sums that are made here, addition by addition.
#include "ring/gradient_sum.h"

#include <bit>
#include <cmath>
#include <cstdint>
#include <memory>
#include <numeric>
#include <string>
#include <tuple>
#include <vector>

#include "absl/strings/str_cat.h"
#include "common/partition.h"
#include "common/ring_order.h"
#include "common/sixteen_bits.h"
#include "common/status_matchers.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "ring/algorithm.h"
#include "ring/ring_test_util.h"

namespace psring {
namespace {

using testing::Each;
using testing::HasSubstr;

WireType TypeOf(SixteenBits type) {
  Wire wire;
  if (type == SixteenBits::kBf16) {
    wire.mutable_bf16();
  } else {
    wire.mutable_fp16();
  }
  return wire;
}

// Differs by rank and element, and is rounded by either type.
float Gradient(int rank, int64_t i) {
  return (static_cast<float>((i * 37 + rank * 11) % 1000) - 499.7f) *
         (rank % 2 == 0 ? 0.013f : -0.0041f);
}

std::vector<float> Gradients(int rank, int64_t count) {
  std::vector<float> values(count);
  for (int64_t i = 0; i < count; ++i) values[i] = Gradient(rank, i);
  return values;
}

float RoundedTo(SixteenBits type, float value) {
  uint16_t half = 0;
  RoundTo(type, {&value, 1}, 1, {&half, 1});
  float widened = 0;
  Widen(type, {&half, 1}, {&widened, 1});
  return widened;
}

// What a ring makes of an element: terms in its order, each partial sum rounded.
float Folded(SixteenBits type, const RingOrder& order, int64_t count, int64_t i) {
  const int ranks = order.ranks();
  const float factor = 1.0f / static_cast<float>(ranks);
  int chunk = 0;
  while (PartitionRange(count, ranks, chunk).end() <= i) ++chunk;
  float sum = 0;
  for (int k = 1; k <= ranks; ++k) {
    const int rank = order.RankAt((chunk + k) % ranks);
    const float term = RoundedTo(type, Gradient(rank, i) * factor);
    sum = k == 1 ? term : RoundedTo(type, sum + term);
  }
  return sum;
}

std::vector<uint32_t> Bits(const std::vector<float>& values) {
  std::vector<uint32_t> bits;
  for (const float value : values) bits.push_back(std::bit_cast<uint32_t>(value));
  return bits;
}

using Case = std::tuple<SixteenBits, TransportKind, RingMode::Algorithm>;

class GradientSumTest : public testing::TestWithParam<Case> {
 protected:
  static SixteenBits type() { return std::get<0>(GetParam()); }
  static RingMode::Algorithm algorithm() { return std::get<2>(GetParam()); }

  // The sums of all ranks; they move what the formula says.
  std::vector<std::vector<float>> Sums(const RingOrder& order, int64_t count) {
    const int ranks = order.ranks();
    const auto collectives = MakeCollectives(std::get<1>(GetParam()),
                                             {.order = order, .algorithm = algorithm()});
    std::vector<std::vector<float>> sums(ranks);
    const auto statuses = RunRanks(ranks, [&](int rank) {
      sums[rank] = Gradients(rank, count);
      GradientSum sum(TypeOf(type()), count);
      const float factor = 1.0f / static_cast<float>(ranks);
      const absl::Status status =
          sum.AllReduce(*collectives[rank], {.step = 3, .bucket = 1}, factor,
                        {.data = sums[rank].data(), .count = count});
      EXPECT_FALSE(sum.RestOf(factor).has_value());
      return status;
    });
    EXPECT_THAT(statuses, Each(IsOk()));
    for (int rank = 0; rank < ranks; ++rank) {
      const OperationBytes formula =
          PayloadBytes(algorithm(), OperationKind::kAllReduce, count,
                       order.PositionOf(rank), ranks, /*element_bytes=*/2);
      EXPECT_EQ(collectives[rank]->traffic().payload_out, formula.out);
      EXPECT_EQ(collectives[rank]->traffic().payload_in, formula.in);
    }
    return sums;
  }
};

TEST_P(GradientSumTest, EveryRankHasTheSameRoundedMean) {
  for (const int ranks : {1, 2, 3, 5}) {
    const RingOrder order = Backwards(ranks);
    for (const int64_t count : {1, 4, 1003, 40'000}) {
      SCOPED_TRACE(absl::StrCat(count, " elements, ", ranks, " ranks"));
      const auto sums = Sums(order, count);
      for (int rank = 1; rank < ranks; ++rank) {
        ASSERT_TRUE(Bits(sums[rank]) == Bits(sums[0])) << "rank " << rank;
      }
      const double most = type() == SixteenBits::kBf16 ? 0x1p-8 : 0x1p-11;
      for (int64_t i = 0; i < count; ++i) {
        ASSERT_EQ(sums[0][i], RoundedTo(type(), sums[0][i])) << i;
        if (algorithm() == RingMode::RING) {
          ASSERT_EQ(sums[0][i], Folded(type(), order, count, i)) << i;
        }
        double mean = 0;
        double size = 0;
        for (int rank = 0; rank < ranks; ++rank) {
          mean += static_cast<double>(Gradient(rank, i)) / ranks;
          size += std::fabs(Gradient(rank, i)) / ranks;
        }
        ASSERT_NEAR(sums[0][i], mean, (ranks + 1) * most * size + 1e-7) << i;
      }
    }
  }
}

INSTANTIATE_TEST_SUITE_P(
    Algorithms, GradientSumTest,
    testing::Combine(testing::Values(SixteenBits::kBf16, SixteenBits::kFp16),
                     testing::Values(TransportKind::kInProcessNarrow,
                                     TransportKind::kTcp),
                     testing::Values(RingMode::RING, RingMode::HALVING_DOUBLING,
                                     RingMode::TREE, RingMode::GATHER_BROADCAST)),
    [](const auto& info) {
      return absl::StrCat(std::get<0>(info.param) == SixteenBits::kBf16 ? "Bf16" : "Fp16",
                          TransportKindName(std::get<1>(info.param)),
                          std::get<2>(info.param));
    });

TEST(GradientSumsTest, Fp32IsSummedWhereItLies) {
  const auto collectives =
      MakeCollectives(TransportKind::kInProcess, {.order = RingOrder(2)});
  std::vector<std::vector<float>> sums(2);
  EXPECT_THAT(RunRanks(2,
                       [&](int rank) {
                         sums[rank] = Gradients(rank, 10);
                         GradientSum sum(WireType(), 10);
                         EXPECT_EQ(sum.RestOf(0.5f), 0.5f);
                         const absl::Status status =
                             sum.AllReduce(*collectives[rank], {}, 0.5f,
                                           {.data = sums[rank].data(), .count = 10});
                         EXPECT_FALSE(sum.TakeDrift().has_value());
                         return status;
                       }),
              Each(IsOk()));
  for (int64_t i = 0; i < 10; ++i) {
    EXPECT_EQ(sums[0][i], Gradient(0, i) + Gradient(1, i));
  }
}

TEST(GradientSumsTest, TheDriftIsThatOfAllSumsSinceItWasTaken) {
  const auto collectives =
      MakeCollectives(TransportKind::kInProcess, {.order = RingOrder(1)});
  GradientSum sum(TypeOf(SixteenBits::kBf16), 2);
  for (const float second : {0.0f, 1.0f + 0x1p-9f}) {
    std::vector<float> gradients = {1.0f, second};
    ASSERT_OK(
        sum.AllReduce(*collectives[0], {}, 1, {.data = gradients.data(), .count = 2}));
  }
  const std::optional<Drift> drift = sum.TakeDrift();
  ASSERT_TRUE(drift.has_value());
  EXPECT_EQ(drift->count, 3);
  EXPECT_NEAR(drift->max, 0x1p-9, 1e-5);
  EXPECT_EQ(sum.TakeDrift()->count, 0);
}

// So that nobody goes on with it.
TEST(GradientSumsTest, ASumBeyondTheLargestNumberIsAnErrorOnEveryRank) {
  const auto collectives =
      MakeCollectives(TransportKind::kInProcess, {.order = RingOrder(3)});
  const auto statuses = RunRanks(3, [&](int rank) {
    std::vector<float> gradients = {1, 70000, 2};  // The trainer would have refused it.
    GradientSum sum(TypeOf(SixteenBits::kFp16), 3);
    return sum.AllReduce(*collectives[rank], {.step = 4, .bucket = 2}, 1,
                         {.data = gradients.data(), .count = 3});
  });
  EXPECT_THAT(statuses,
              Each(testing::Property(
                  &absl::Status::message,
                  HasSubstr("element 1 of bucket 2 is not finite as fp16, in step 4"))));
}

// Ranks whose wires differ never add.
TEST(GradientSumsTest, RanksOfAnotherTypeAreRefused) {
  const auto collectives =
      MakeCollectives(TransportKind::kInProcess, {.order = RingOrder(2)});
  const auto statuses = RunRanks(2, [&](int rank) {
    std::vector<float> gradients(8, 1.0f);
    GradientSum sum(TypeOf(rank == 0 ? SixteenBits::kFp16 : SixteenBits::kBf16), 8);
    return sum.AllReduce(*collectives[rank], {}, 0.5f,
                         {.data = gradients.data(), .count = 8});
  });
  EXPECT_THAT(statuses, Each(StatusIs(absl::StatusCode::kFailedPrecondition,
                                      testing::AllOf(HasSubstr("8 fp16 numbers"),
                                                     HasSubstr("8 bf16 numbers")))));
}

}  // namespace
}  // namespace psring
