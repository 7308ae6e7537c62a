#include "experiments/algorithm_table.h"

#include <string>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "common/status_matchers.h"
#include "gmock/gmock.h"
#include "google/protobuf/util/message_differencer.h"
#include "gtest/gtest.h"

namespace psring {
namespace {

using google::protobuf::util::MessageDifferencer;
using testing::ElementsAre;
using testing::HasSubstr;

AlgorithmTable Read(const std::string& text) {
  const absl::StatusOr<AlgorithmTable> table = ReadAlgorithmTable(text, "file");
  EXPECT_OK(table) << text;
  return *table;
}

// "TCP 2 TREE 8", "TCP 2 RING" of each row.
std::vector<std::string> RowsOf(const AlgorithmChoices& choices) {
  std::vector<std::string> rows;
  for (const AlgorithmChoice& choice : choices) {
    rows.push_back(absl::StrCat(RingMode::Transport_Name(choice.transport()), " ",
                                choice.workers(), " ",
                                RingMode::Algorithm_Name(choice.algorithm())));
    if (choice.has_up_to_bytes()) {
      absl::StrAppend(&rows.back(), " ", choice.up_to_bytes());
    }
  }
  return rows;
}

// Rows of TCP with 2 and 6 workers, of gRPC with 3.
constexpr char kTable[] = R"(
choices { transport: TCP workers: 2 up_to_bytes: 8 algorithm: TREE }
choices { transport: GRPC workers: 3 algorithm: TREE }
choices { transport: TCP workers: 6 up_to_bytes: 4 algorithm: HALVING_DOUBLING }
choices { transport: TCP workers: 6 up_to_bytes: 6 algorithm: TREE }
choices { transport: TCP workers: 2 algorithm: RING }
choices { transport: TCP workers: 6 algorithm: RING }
)";

TEST(AlgorithmTableTest, EachMistakeIsOneLine) {
  const std::string tcp = "choices { transport: TCP workers: 2 ";
  for (const auto& [text, message] : std::vector<std::pair<std::string, std::string>>{
           {"choices { workers: 2 algorithm: RING }",
            "file:1: choices[0].transport: missing; allowed: TCP, GRPC"},
           {"choices { transport: SHARED_MEMORY workers: 2 algorithm: RING }",
            "file:1: choices[0].transport: is SHARED_MEMORY; allowed: TCP, GRPC"},
           {"choices { transport: 9 workers: 2 algorithm: RING }",
            "file:1: choices[0].transport: is 9; allowed: TCP, GRPC"},
           {"choices { transport: TCP algorithm: RING }",
            "file:1: choices[0].workers: missing; allowed: at least 2"},
           {"choices { transport: TCP workers: 1 algorithm: RING }",
            "file:1: choices[0].workers: is 1; allowed: at least 2"},
           {tcp + "}",
            "file:1: choices[0].algorithm: missing; allowed: RING, HALVING_DOUBLING, "
            "TREE, GATHER_BROADCAST"},
           {tcp + "algorithm: AUTO }",
            "file:1: choices[0].algorithm: is AUTO; allowed: RING, HALVING_DOUBLING, "
            "TREE, GATHER_BROADCAST"},
           {tcp + "up_to_bytes: 0 algorithm: RING }",
            "file:1: choices[0].up_to_bytes: is 0; allowed: at least 1, or leaving it "
            "out for no limit"},
           {tcp + "up_to_bytes: 8 algorithm: RING }",
            "file:1: choices[0].up_to_bytes: is 8 in the last row for TCP with 2 "
            "workers; allowed: leaving it out"},
           {absl::StrCat(tcp, "up_to_bytes: 8 algorithm: TREE }\n", tcp,
                         "up_to_bytes: 8 algorithm: RING }"),
            "file:2: choices[1].up_to_bytes: is 8; allowed: more than 8, that of "
            "choices[0]"},
           {absl::StrCat(tcp, "algorithm: TREE }\n", tcp,
                         "up_to_bytes: 8 algorithm: RING }"),
            "file:2: choices[1]: comes after choices[0], which has no up_to_bytes and so "
            "takes everything; allowed: no more rows for TCP with 2 workers"},
           {"choices { transprot: TCP }",
            "file:1: choices[0].transprot: no such field; allowed: transport, workers, "
            "up_to_bytes, algorithm"},
       }) {
    EXPECT_THAT(ReadAlgorithmTable(text, "file").status(),
                StatusIs(absl::StatusCode::kInvalidArgument, message));
  }
}

TEST(AlgorithmTableTest, TheNearestMeasuredNumberOfWorkersCounts) {
  const AlgorithmTable table = Read(kTable);
  const auto rows = [&](RingMode::Transport transport, int64_t workers) {
    return RowsOf(ChoicesFor(table.choices(), transport, workers));
  };
  for (const int workers : {1, 2, 3}) {
    EXPECT_THAT(rows(RingMode::TCP, workers), ElementsAre("TCP 2 TREE 8", "TCP 2 RING"));
  }
  // 4 is as near to 2 as to 6.
  for (const int workers : {4, 5, 6, 4096}) {
    EXPECT_THAT(rows(RingMode::TCP, workers),
                ElementsAre("TCP 6 HALVING_DOUBLING 4", "TCP 6 TREE 6", "TCP 6 RING"));
  }
  EXPECT_THAT(rows(RingMode::GRPC, 64), ElementsAre("GRPC 3 TREE"));
  EXPECT_THAT(rows(RingMode::SHARED_MEMORY, 2), ElementsAre());
}

TEST(AlgorithmTableTest, WhatIsPrintedReadsBackAsTheSame) {
  const AlgorithmTable table = Read(kTable);
  const std::string text = PrintAlgorithmTable(table);
  EXPECT_TRUE(MessageDifferencer::Equals(Read(text), table)) << text;
  EXPECT_THAT(text, HasSubstr("choices { transport: TCP workers: 2 algorithm: RING }\n"));
}

TEST(AlgorithmTableTest, AnUpdateReplacesWhatWasMeasuredAgainAndKeepsTheRest) {
  AlgorithmTable table = Read(kTable);
  UpdateTable(Read("choices { transport: TCP workers: 6 up_to_bytes: 9 algorithm: TREE }"
                   "choices { transport: TCP workers: 6 algorithm: GATHER_BROADCAST }"
                   "choices { transport: TCP workers: 4 algorithm: TREE }"),
              &table);
  EXPECT_THAT(RowsOf(table.choices()),
              ElementsAre("TCP 2 TREE 8", "TCP 2 RING", "TCP 4 TREE", "TCP 6 TREE 9",
                          "TCP 6 GATHER_BROADCAST", "GRPC 3 TREE"));
}

TEST(AlgorithmTableTest, PsringsOwnHasRowsForEveryTransportWithLinks) {
  const AlgorithmTable table = MeasuredAlgorithms();
  for (const RingMode::Transport transport : {RingMode::TCP, RingMode::GRPC}) {
    for (const int workers : {2, 4}) {
      const AlgorithmChoices rows = ChoicesFor(table.choices(), transport, workers);
      ASSERT_FALSE(rows.empty());
      EXPECT_EQ(rows[0].workers(), workers);
    }
  }
}

}  // namespace
}  // namespace psring
