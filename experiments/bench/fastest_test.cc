#include "experiments/bench/fastest.h"

#include <string>
#include <utility>

#include "absl/strings/str_cat.h"
#include "experiments/algorithm_table.h"
#include "gtest/gtest.h"

namespace psring {
namespace {

BenchRow Row(int64_t size_bytes, const std::string& algorithm, double median_us,
             const std::string& transport = "tcp", const std::string& peer = "psring") {
  return {.size_bytes = size_bytes,
          .contestant = {.peer = peer, .algorithm = algorithm, .transport = transport},
          .median_us = median_us};
}

// "TREE up to 8, RING".
std::string Describe(const AlgorithmTable& table) {
  std::string text;
  for (const AlgorithmChoice& choice : table.choices()) {
    absl::StrAppend(&text, text.empty() ? "" : ", ",
                    RingMode::Transport_Name(choice.transport()), " ", choice.workers(),
                    " ", RingMode::Algorithm_Name(choice.algorithm()));
    if (choice.has_up_to_bytes()) {
      absl::StrAppend(&text, " up to ", choice.up_to_bytes());
    }
  }
  return text;
}

TEST(FastestTest, NeighboursWithTheSameWinnerAreOneRowAndTheLastHasNoLimit) {
  const std::vector<BenchRow> rows = {
      Row(4, "ring", 3),    Row(4, "tree", 2),    Row(16, "ring", 3),
      Row(16, "tree", 2),   Row(64, "ring", 3),   Row(64, "tree", 4),
      Row(256, "ring", 3),  Row(256, "tree", 2),  Row(1024, "ring", 3),
      Row(1024, "tree", 5), Row(4096, "ring", 3), Row(4096, "tree", 5)};
  const AlgorithmTable table = FastestAlgorithms(rows, 3);
  EXPECT_EQ(Describe(table),
            "TCP 3 TREE up to 16, TCP 3 RING up to 64, TCP 3 TREE up to 256, TCP 3 RING");
  // And it is one that an experiment can have.
  EXPECT_TRUE(ReadAlgorithmTable(PrintAlgorithmTable(table), "file").ok());
}

TEST(FastestTest, AnotherMustBeClearlyFaster) {
  EXPECT_EQ(Describe(FastestAlgorithms(
                {Row(4, "ring", 100), Row(4, "tree", 99), Row(16, "ring", 91),
                 Row(16, "tree", 100), Row(64, "ring", 89), Row(64, "tree", 100)},
                2)),
            "TCP 2 TREE up to 16, TCP 2 RING");
}

TEST(FastestTest, OnlyPsringsOwnAlgorithmsOverLinksCount) {
  EXPECT_EQ(Describe(FastestAlgorithms(
                {Row(4, "auto", 1), Row(4, "ring", 3), Row(4, "ring", 1, "tcp", "raw"),
                 Row(4, "bcube", 1, "tcp", "gloo"), Row(4, "ring", 1, "shared_memory"),
                 Row(4, "tree", 3), Row(4, "halving_doubling", 2, "grpc")},
                2)),
            "TCP 2 RING, GRPC 2 HALVING_DOUBLING");
  EXPECT_EQ(Describe(FastestAlgorithms({Row(4, "ring", 1, "shared_memory")}, 2)), "");
}

}  // namespace
}  // namespace psring
