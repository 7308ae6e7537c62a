#include "experiments/bench/report.h"

#include <sstream>

#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "nlohmann/json.hpp"

namespace psring {
namespace {

using testing::AllOf;
using testing::HasSubstr;

BenchContext Context() {
  return {.command = "psring bench all-reduce -b 4K",
          .environment = {{"cores", "2"}, {"gloo", "0.5.0"}},
          .load_before = "0.10 0.20 0.30",
          .load_after = "1.10 0.40 0.30",
          .ranks = 4};
}

std::vector<BenchRow> Rows() {
  return {{.size_bytes = 4096,
           .contestant = {.peer = "psring", .algorithm = "ring", .transport = "tcp"},
           .min_us = 7.25,
           .median_us = 46.5,
           .p99_us = 1234.5,
           .algbw = 0.0881,
           .busbw = 0.13215,
           .wrong = 0,
           .ratio = {}},
          {.size_bytes = 4096,
           .contestant = {.peer = "gloo", .algorithm = "bcube", .transport = "tcp"},
           .min_us = 8,
           .median_us = 93,
           .p99_us = 100,
           .algbw = 0.044,
           .busbw = 0.066,
           .wrong = {},
           .ratio = 2.0}};
}

TEST(BenchReportTest, HeaderAndFooterSayWhatRanOnWhat) {
  EXPECT_THAT(BenchHeader(Context()),
              AllOf(HasSubstr("psring bench all-reduce -b 4K\n"), HasSubstr("0.5.0"),
                    HasSubstr("0.10 0.20 0.30")));
  EXPECT_THAT(BenchFooter(Context()),
              AllOf(HasSubstr("microseconds"), HasSubstr("1.10 0.40 0.30")));
}

TEST(BenchReportTest, TheTableHasTheColumnsOfEveryRow) {
  EXPECT_EQ(
      BenchTable(Rows()),
      "  peer     size  count   type  algorithm  transport   min  time   p99  algbw  "
      "busbw  #wrong  ratio\n"
      "  psring  4,096  1,024  float       ring        tcp  7.25  46.5  1234  0.088  "
      "0.132       0\n"
      "  gloo    4,096  1,024  float      bcube        tcp  8.00  93.0   100  0.044  "
      "0.066     N/A   2.00\n");
}

TEST(BenchReportTest, JsonHasEverything) {
  const nlohmann::json json = nlohmann::json::parse(BenchJson(Context(), Rows()));
  EXPECT_EQ(json["command"], "psring bench all-reduce -b 4K");
  EXPECT_EQ(json["ranks"], 4);
  EXPECT_EQ(json["environment"]["cores"], "2");
  EXPECT_EQ(json["load_before"], "0.10 0.20 0.30");
  EXPECT_EQ(json["load_after"], "1.10 0.40 0.30");
  ASSERT_EQ(json["rows"].size(), 2);
  const nlohmann::json& row = json["rows"][0];
  EXPECT_EQ(row["size"], 4096);
  EXPECT_EQ(row["count"], 1024);
  EXPECT_EQ(row["type"], "float");
  EXPECT_EQ(row["algorithm"], "ring");
  EXPECT_EQ(row["transport"], "tcp");
  EXPECT_EQ(row["peer"], "psring");
  EXPECT_EQ(row["time_us"]["min"], 7.25);
  EXPECT_EQ(row["time_us"]["median"], 46.5);
  EXPECT_EQ(row["time_us"]["p99"], 1234.5);
  EXPECT_EQ(row["algbw"], 0.0881);
  EXPECT_EQ(row["busbw"], 0.13215);
  EXPECT_EQ(row["wrong"], 0);
  EXPECT_TRUE(row["ratio"].is_null());
  EXPECT_TRUE(json["rows"][1]["wrong"].is_null());
  EXPECT_EQ(json["rows"][1]["ratio"], 2.0);
}

TEST(BenchReportTest, CsvHasAHeaderAndALineForEachRow) {
  EXPECT_EQ(BenchCsv(Rows()),
            "size,count,type,algorithm,transport,peer,min_us,median_us,p99_us,algbw,"
            "busbw,wrong,ratio\n"
            "4096,1024,float,ring,tcp,psring,7.250,46.500,1234.500,0.088100,0.132150,0,\n"
            "4096,1024,float,bcube,tcp,gloo,8.000,93.000,100.000,0.044000,0.066000,,"
            "2.0000\n");
}

}  // namespace
}  // namespace psring
