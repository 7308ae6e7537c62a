// What goes by size; collectives_test.cc has every algorithm by itself.
#include "ring/transport_collectives.h"

#include <memory>
#include <string>
#include <vector>

#include "common/status_macros.h"
#include "common/status_matchers.h"
#include "gmock/gmock.h"
#include "google/protobuf/text_format.h"
#include "gtest/gtest.h"
#include "ring/algorithm.h"
#include "ring/collectives_test_util.h"
#include "ring/ring_test_util.h"

namespace psring {
namespace {

using testing::ElementsAre;

AlgorithmBySize BySize(const std::string& rows) {
  RingMode settings;
  EXPECT_TRUE(google::protobuf::TextFormat::ParseFromString("algorithm: AUTO " + rows,
                                                            &settings));
  return AlgorithmBySize(settings);
}

TEST(TransportCollectivesTest, LinkedRanksAreThoseOfEveryAlgorithmThatMayRun) {
  CollectiveOptions options = {.order = RingOrder(8)};
  EXPECT_THAT(LinkedRanks(options, 0), ElementsAre(1, 7));
  options.algorithm = BySize(
      "choices { up_to_bytes: 9 algorithm: HALVING_DOUBLING }"
      "choices { algorithm: RING }");
  EXPECT_THAT(LinkedRanks(options, 0), ElementsAre(1, 2, 4, 7));
  options.order = RingOrder({0, 7, 6, 5, 4, 3, 2, 1});
  EXPECT_THAT(LinkedRanks(options, 1), ElementsAre(0, 2, 3, 5));
}

TEST(TransportCollectivesTest, TrafficHasWhatAllLinksCost) {
  constexpr int kRanks = 3;
  const auto collectives = MakeCollectives(
      TransportKind::kTcp,
      {.order = RingOrder(kRanks), .algorithm = RingMode::GATHER_BROADCAST});
  const auto statuses = RunRanks(kRanks, [&](int rank) {
    std::vector<float> values(100'000, 1.0f);
    return collectives[rank]->AllReduce(kTag, SpanOf(values));
  });
  ASSERT_THAT(statuses, testing::Each(IsOk()));
  absl::Duration all;
  for (int rank = 0; rank < kRanks; ++rank) {
    absl::Duration bytes, room;
    int64_t retransmissions = 0;
    for (const int peer : collectives[rank]->transport()->peers()) {
      const LinkTotals link = collectives[rank]->transport()->totals(peer);
      bytes += link.awaiting_bytes;
      room += link.awaiting_room;
      retransmissions += link.retransmissions;
    }
    const ExchangeTraffic traffic = collectives[rank]->traffic();
    EXPECT_EQ(traffic.awaiting_bytes, bytes);
    EXPECT_EQ(traffic.awaiting_room, room);
    EXPECT_EQ(traffic.retransmissions, retransmissions);
    all += bytes;
  }
  // Somebody had to wait for somebody.
  EXPECT_GT(all, absl::ZeroDuration());
}

// Of 4 ranks a barrier is a sum of 16 bytes.
TEST(TransportCollectivesTest, EachOperationGoesByTheAlgorithmForItsSize) {
  constexpr int kRanks = 4;
  const CollectiveOptions options = {
      .order = RingOrder(kRanks),
      .algorithm = BySize("choices { up_to_bytes: 40 algorithm: TREE }"
                          "choices { up_to_bytes: 80 algorithm: GATHER_BROADCAST }"
                          "choices { algorithm: RING }")};
  const auto collectives = MakeCollectives(TransportKind::kInProcess, options);
  struct Case {
    int64_t count;
    Algorithm algorithm;
  };
  std::vector<OperationBytes> steps(kRanks), initial(kRanks);
  for (const Case& operation :
       {Case{10, RingMode::TREE}, Case{11, RingMode::GATHER_BROADCAST},
        Case{20, RingMode::GATHER_BROADCAST}, Case{21, RingMode::RING},
        Case{10, RingMode::TREE}}) {
    std::vector<std::vector<float>> values(kRanks);
    const auto statuses = RunRanks(kRanks, [&](int rank) -> absl::Status {
      values[rank].assign(operation.count, static_cast<float>(rank + 1));
      Collectives& own = *collectives[rank];
      RETURN_IF_ERROR(own.Barrier());
      RETURN_IF_ERROR(own.Broadcast(SpanOf(values[rank])));
      return own.AllReduce(kTag, SpanOf(values[rank]));
    });
    ASSERT_THAT(statuses, testing::Each(IsOk()));
    for (int rank = 0; rank < kRanks; ++rank) {
      EXPECT_THAT(values[rank], testing::Each(4.0f));
      const auto add = [&](OperationBytes& to, OperationKind kind) {
        const OperationBytes bytes =
            PayloadBytes(operation.algorithm, kind, operation.count, rank, kRanks);
        to = {.out = to.out + bytes.out, .in = to.in + bytes.in};
      };
      add(initial[rank], OperationKind::kBroadcast);
      add(steps[rank], OperationKind::kAllReduce);
      const ExchangeTraffic traffic = collectives[rank]->traffic();
      EXPECT_EQ(traffic.payload_out, steps[rank].out) << operation.count;
      EXPECT_EQ(traffic.payload_in, steps[rank].in) << operation.count;
      EXPECT_EQ(traffic.initial_out, initial[rank].out) << operation.count;
      EXPECT_EQ(traffic.initial_in, initial[rank].in) << operation.count;
    }
  }
}

}  // namespace
}  // namespace psring
