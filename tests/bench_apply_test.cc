// psring bench apply as a user runs it, small.
#include <cstdint>
#include <string>
#include <vector>

#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "nlohmann/json.hpp"
#include "tests/bench_test_util.h"
#include "tests/end_to_end_test_util.h"

namespace psring {
namespace {

using testing::AllOf;
using testing::ElementsAre;
using testing::HasSubstr;
using testing::Optional;

class BenchApplyTest : public BenchCommandTest {
 protected:
  BenchApplyTest() : BenchCommandTest("apply") {}

  // Two small sizes, the larger of which is two slots and a rest.
  nlohmann::json Measure(std::vector<std::string> more) {
    more.insert(more.end(), {"-b", "70004", "-e", "2100120", "-f", "30", "--rounds", "2",
                             "--working-set", "8M", "--json", Path("rows.json")});
    const auto bench = Bench(more);
    EXPECT_THAT(bench->Wait(kPatience), Optional(0)) << bench->err();
    out_ = bench->out();
    err_ = bench->err();
    return WrittenJson();
  }

  std::string out_;  // Of the last Measure().
  std::string err_;
};

TEST_F(BenchApplyTest, EveryOptimizerGivesTheReferencesBits) {
  const nlohmann::json json = Measure({});
  EXPECT_EQ(json["contributions"], 4);
  EXPECT_EQ(json["threads"], 1);
  EXPECT_EQ(json["working_set_bytes"], 8 << 20);
  const nlohmann::json& rows = json["rows"];
  ASSERT_EQ(rows.size(), 2 * 6 * 2);
  std::vector<std::string> names;
  for (const nlohmann::json& row : rows) {
    const nlohmann::json& time = row["time_us"];
    EXPECT_GT(time["min"], 0) << row;
    EXPECT_GE(time["median"], time["min"]) << row;
    EXPECT_GE(time["p99"], time["median"]) << row;
    const double speed =
        row["moved_bytes"].get<double>() / (time["median"].get<double>() * 1e3);
    EXPECT_NEAR(row["gb_per_s"], speed, 1e-6 * speed) << row;
    EXPECT_GT(row["triad_gb_per_s"], 0) << row;
    EXPECT_GT(row["ratio"], 0) << row;
    EXPECT_EQ(row["wrong"], 0) << row;
    if (row["size"] == 70004) names.push_back(row["optimizer"].get<std::string>());
  }
  EXPECT_THAT(names,
              ElementsAre("sgd", "sgd", "momentum", "momentum", "nesterov", "nesterov",
                          "adam", "adam", "adamw", "adamw", "adagrad", "adagrad"));
  EXPECT_EQ(rows[0]["count"], 17501);
  EXPECT_EQ(rows[0]["pieces"], "whole");
  EXPECT_EQ(rows[0]["moved_bytes"], 17501 * (4 * 4 + 8));
  EXPECT_EQ(rows[1]["pieces"], "cut");
  EXPECT_EQ(rows[23]["count"], 525030);
  EXPECT_THAT(out_, AllOf(HasSubstr("psring bench apply -b 70004"), HasSubstr("cores"),
                          HasSubstr("load before"), HasSubstr("working set"),
                          HasSubstr("triad GB/s"), HasSubstr("load after")));
  EXPECT_THAT(err_, AllOf(HasSubstr("psring: row 1 of 24, 70,004 bytes, sgd, whole, "),
                          HasSubstr("psring: row 24 of 24, ")));
}

TEST_F(BenchApplyTest, RowsAsWanted) {
  const nlohmann::json json = Measure({"--optimizer", "adam", "--pieces", "cut",
                                       "--contributions", "7", "--threads", "2"});
  EXPECT_EQ(json["contributions"], 7);
  EXPECT_EQ(json["threads"], 2);
  ASSERT_EQ(json["rows"].size(), 2);
  for (const nlohmann::json& row : json["rows"]) {
    EXPECT_EQ(row["optimizer"], "adam");
    EXPECT_EQ(row["pieces"], "cut");
    EXPECT_EQ(row["wrong"], 0);
    EXPECT_EQ(row["moved_bytes"], row["count"].get<int64_t>() * (7 * 4 + 24));
  }
}

TEST_F(BenchApplyTest, WrongUsageIsOneLineAndMeasuresNothing) {
  ExpectRefused(
      {{{"--optimizer", "lion"}, "--optimizer lion: not one of sgd, momentum"},
       {{"--pieces", "torn"}, "--pieces torn: not one of whole, cut"},
       {{"-b", "5"}, "-b 5: not a positive multiple of 4 bytes"},
       {{"-e", "1024G"}, " bytes of memory; available: "},
       {{"--working-set", "1024G"}, " bytes of memory; available: "},
       {{"--json", Path("missing/rows.json")}, "cannot be written: No such file"}});
  ExpectOutOfRange({{"--contributions", "0"}, {"--threads", "0"}, {"--rounds", "0"}});
}

}  // namespace
}  // namespace psring
