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
        "algorithm: GATHER_BROADCAST spin: true", "connections: 1", "algorithm: AUTO",
        "transport: GRPC algorithm: AUTO", "transport: SHARED_MEMORY algorithm: AUTO",
        "transport: SHARED_MEMORY algorithm: RING connections: 1 spin: true",
        "algorithm: AUTO choices { transport: TCP workers: 2 algorithm: TREE }",
        "sharded_optimizer: true", "sharded_optimizer: true transport: SHARED_MEMORY"}) {
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
                      "HALVING_DOUBLING, TREE, GATHER_BROADCAST, AUTO"));
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

TEST(RingConfigTest, SharedMemoryLeavesLittleToChoose) {
  EXPECT_THAT(
      Check("transport: SHARED_MEMORY algorithm: TREE"),
      IsError("file:2: arms[0].ring.algorithm: is TREE, and SHARED_MEMORY has one of its "
              "own, with the bits of RING; allowed: RING, AUTO"));
  EXPECT_THAT(Check("transport: SHARED_MEMORY connections: 2"),
              IsError("file:2: arms[0].ring.connections: is 2, and SHARED_MEMORY has "
                      "none; allowed: 1, or leaving it out"));
  EXPECT_THAT(Check("transport: SHARED_MEMORY algorithm: AUTO\n"
                    "choices { transport: TCP workers: 2 algorithm: TREE }"),
              IsError("file:3: arms[0].ring.choices: there is nothing to choose with "
                      "SHARED_MEMORY; allowed: leaving them out"));
}

TEST(RingConfigTest, SharedMemoryIsOnOneHost) {
  Arm arm;
  arm.set_name("shared");
  EXPECT_OK(CheckForSeveralHosts(arm));
  arm.mutable_ring()->set_transport(RingMode::GRPC);
  EXPECT_OK(CheckForSeveralHosts(arm));
  arm.mutable_ring()->set_transport(RingMode::SHARED_MEMORY);
  EXPECT_THAT(
      CheckForSeveralHosts(arm),
      IsError("arm 'shared': ring.transport: is SHARED_MEMORY, for processes that "
              "psring starts on its own host, and --external leaves that to "
              "others; allowed: TCP, GRPC"));
}

TEST(RingConfigTest, RowsAreForAutoAndForTheArmsTransport) {
  const std::string row = "choices { transport: TCP workers: 2 algorithm: TREE }";
  EXPECT_THAT(Check("algorithm: TREE\n" + row),
              IsError("file:3: arms[0].ring.choices: is for AUTO, and the algorithm is "
                      "TREE; allowed: algorithm: AUTO, or leaving them out"));
  EXPECT_THAT(Check("algorithm: AUTO transport: GRPC\n" + row),
              IsError("file:3: arms[0].ring.choices: has no row for GRPC, the arm's "
                      "transport; allowed: rows for it, or no rows at all"));
  EXPECT_THAT(Check("algorithm: AUTO\n" + row + "\nchoices { transport: TCP }"),
              IsError("file:4: arms[0].ring.choices[1].workers: missing; allowed: at "
                      "least 2"));
}

RingMode Filled(const std::string& text, int workers) {
  FieldOrigins origins("file");
  RingMode ring = Parse(text, &origins);
  EXPECT_OK(CheckRing(ring, "arms[0].ring", origins));
  FillRingDefaults(workers, &ring);
  return ring;
}

TEST(RingConfigTest, AutoBecomesTheRowsOfItsTransportAndWorkers) {
  for (const int workers : {2, 4}) {
    const RingMode own = Filled("algorithm: AUTO transport: GRPC", workers);
    ASSERT_FALSE(own.choices().empty());
    for (const AlgorithmChoice& choice : own.choices()) {
      EXPECT_EQ(choice.transport(), RingMode::GRPC);
      EXPECT_EQ(choice.workers(), workers);
    }
  }
  const RingMode given = Filled(
      "algorithm: AUTO"
      " choices { transport: TCP workers: 2 algorithm: TREE }"
      " choices { transport: TCP workers: 8 up_to_bytes: 4 algorithm: TREE }"
      " choices { transport: TCP workers: 8 algorithm: HALVING_DOUBLING }"
      " choices { transport: GRPC workers: 8 algorithm: TREE }",
      7);
  ASSERT_EQ(given.choices_size(), 2);
  EXPECT_EQ(given.choices(0).up_to_bytes(), 4);
  EXPECT_EQ(given.choices(1).algorithm(), RingMode::HALVING_DOUBLING);
  // What is complete stays as it is.
  RingMode again = given;
  FillRingDefaults(7, &again);
  EXPECT_EQ(again.SerializeAsString(), given.SerializeAsString());

  const RingMode shared = Filled("transport: SHARED_MEMORY algorithm: AUTO", 2);
  EXPECT_EQ(shared.algorithm(), RingMode::RING);
  EXPECT_TRUE(shared.choices().empty());
}

TEST(RingConfigTest, NamesAndDefaults) {
  for (const auto& [text, name] : std::vector<std::pair<std::string, std::string>>{
           {"", "ring all-reduce"},
           {"algorithm: HALVING_DOUBLING", "halving-doubling all-reduce"},
           {"algorithm: TREE transport: GRPC connections: 2 spin: true",
            "tree all-reduce over gRPC, 2 connections, spinning"},
           {"algorithm: AUTO", "auto all-reduce"},
           {"sharded_optimizer: true", "ring all-reduce, sharded optimizer"},
           {"algorithm: AUTO transport: SHARED_MEMORY",
            "ring all-reduce in shared memory"},
       }) {
    const RingMode ring = Filled(text, 2);
    EXPECT_GE(ring.connections(), 1);
    EXPECT_EQ(DescribeRing(ring), name);
  }
}

}  // namespace
}  // namespace psring
