#include "experiments/ring_config.h"

#include <string>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "common/status_matchers.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"

namespace psring {
namespace {

RingMode Parse(const std::string& text, FieldOrigins* origins) {
  Experiment experiment;
  EXPECT_OK(ReadText(absl::StrCat("arms { ring {\n", text, "} }"), &experiment, origins))
      << text;
  return experiment.arms(0).ring();
}

absl::Status Check(const std::string& text) {
  FieldOrigins origins("file");
  return CheckRing(Parse(text, &origins), "arms[0].ring", origins);
}

// Of arm 'a' with 4 workers.
absl::Status CheckOrder(const std::string& order) {
  Experiment experiment;
  FieldOrigins origins("file");
  EXPECT_OK(ReadText(absl::StrCat("ring_order: [", order, "]"), &experiment, &origins));
  return CheckRingOrder(experiment, "a", 4, origins);
}

auto IsError(const std::string& text) {
  return StatusIs(absl::StatusCode::kInvalidArgument, text);
}

TEST(RingConfigTest, Accepts) {
  for (const char* text :
       {"", "transport: TCP", "transport: GRPC", "algorithm: TREE connections: 64",
        "algorithm: GATHER_BROADCAST spin: true", "connections: 1"}) {
    EXPECT_OK(Check(text)) << text;
  }
  for (const char* order : {"", "0, 1, 2, 3", "0, 3, 1, 2"}) {
    EXPECT_OK(CheckOrder(order)) << order;
  }
}

TEST(RingConfigTest, Refuses) {
  EXPECT_THAT(Check("connections: 0"),
              IsError("file:2: arms[0].ring.connections: is 0; allowed: 1 to 64"));
  EXPECT_THAT(Check("connections: 65"),
              IsError("file:2: arms[0].ring.connections: is 65; allowed: 1 to 64"));
  EXPECT_THAT(Check("algorithm: 9"),
              IsError("file:2: arms[0].ring.algorithm: is 9; allowed: RING, "
                      "HALVING_DOUBLING, TREE, GATHER_BROADCAST"));
  EXPECT_THAT(
      Check("transport: 7"),
      IsError("file:2: arms[0].ring.transport: is 7; allowed: TCP, GRPC, SHARED_MEMORY"));
  const std::string allowed = "; allowed: each of 0 to 3 once, 0 first";
  EXPECT_THAT(
      CheckOrder("0, 1, 2"),
      IsError("file:1: ring_order: names 3 workers, and arm 'a' has 4" + allowed));
  EXPECT_THAT(CheckOrder("0, 1, 2, 4"), IsError("file:1: ring_order[3]: is 4" + allowed));
  EXPECT_THAT(CheckOrder("0, 1, -2, 3"),
              IsError("file:1: ring_order[2]: is -2" + allowed));
  EXPECT_THAT(CheckOrder("1, 0, 2, 3"), IsError("file:1: ring_order[0]: is 1" + allowed));
  EXPECT_THAT(CheckOrder("0, 1, 2, 1"),
              IsError("file:1: ring_order[3]: worker 1 is named twice" + allowed));
}

TEST(RingConfigTest, NamesAndDefaults) {
  for (const auto& [text, name] : std::vector<std::pair<std::string, std::string>>{
           {"", "ring all-reduce"},
           {"algorithm: HALVING_DOUBLING", "halving-doubling all-reduce"},
           {"algorithm: TREE transport: GRPC connections: 2 spin: true",
            "tree all-reduce over gRPC, 2 connections, spinning"},
       }) {
    FieldOrigins origins("file");
    RingMode ring = Parse(text, &origins);
    FillRingDefaults(&ring);
    EXPECT_GE(ring.connections(), 1);
    EXPECT_EQ(DescribeRing(ring), name);
  }
}

}  // namespace
}  // namespace psring
