// More bytes than fit into 31 bits. Takes gigabytes and a while, so that it only runs
// when it is asked for: bazel test //ring:collectives_slow_test.
#include <cstdint>
#include <memory>
#include <vector>

#include "absl/strings/str_cat.h"
#include "common/status_macros.h"
#include "common/status_matchers.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "ring/grpc_test_util.h"
#include "ring/ring_test_util.h"
#include "ring/shared_memory_ranks.h"
#include "ring/transport_collectives.h"

namespace psring {
namespace {

// Whole numbers, so that every sum is exact in any order.
float Term(int rank, int64_t index) {
  return static_cast<float>((rank + 1) * (index % 1021));
}

constexpr int kRanks = 2;
constexpr int64_t kCount = (int64_t{1} << 29) + 11;
static_assert(kCount * sizeof(float) > int64_t{1} << 31);

// `collectives` are every rank's.
template <typename AnyCollectives>
void ExpectRightSums(const std::vector<std::unique_ptr<AnyCollectives>>& collectives) {
  const auto statuses = RunRanks(kRanks, [&](int rank) -> absl::Status {
    std::vector<float> values(kCount);
    for (int64_t i = 0; i < kCount; ++i) values[i] = Term(rank, i);
    RETURN_IF_ERROR(collectives[rank]->AllReduce(
        {}, DeviceSpan{.data = values.data(), .count = kCount}));
    for (int64_t i = 0; i < kCount; ++i) {
      if (values[i] == Term(0, i) + Term(1, i)) continue;
      return absl::DataLossError(absl::StrCat("element ", i, " is ", values[i]));
    }
    return absl::OkStatus();
  });
  EXPECT_THAT(statuses, testing::Each(IsOk()));
}

class CollectivesSlowTest : public testing::TestWithParam<Algorithm> {};

TEST_P(CollectivesSlowTest, SumsMoreThanTwoGibibytesOverTcp) {
  ExpectRightSums(MakeCollectives(TransportKind::kTcp,
                                  {.order = RingOrder(kRanks), .algorithm = GetParam()}));
}

INSTANTIATE_TEST_SUITE_P(Algorithms, CollectivesSlowTest,
                         testing::Values(RingMode::RING, RingMode::HALVING_DOUBLING,
                                         RingMode::TREE, RingMode::GATHER_BROADCAST),
                         [](const auto& info) {
                           return RingMode::Algorithm_Name(info.param);
                         });

TEST(OtherCollectivesSlowTest, SumsMoreThanTwoGibibytesOverGrpc) {
  ExpectRightSums(
      MakeCollectives(MakeGrpcTransports<1>(kRanks), {.order = RingOrder(kRanks)}));
}

// Their values lie outside, so that the segment is small.
TEST(OtherCollectivesSlowTest, SumsMoreThanTwoGibibytesThroughSharedMemory) {
  ExpectRightSums(MakeSharedMemoryCollectives(RingOrder(kRanks)));
}

}  // namespace
}  // namespace psring
