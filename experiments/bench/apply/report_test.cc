#include "experiments/bench/apply/report.h"

#include <string>
#include <vector>

#include "experiments/bench/apply/options.h"
#include "experiments/bench/apply/plan.h"
#include "experiments/bench/apply/received.h"
#include "experiments/bench/apply/result.h"
#include "experiments/bench/report.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "nlohmann/json.hpp"

namespace psring {
namespace {

using testing::AllOf;
using testing::Contains;
using testing::HasSubstr;
using testing::Not;
using testing::Pair;

std::vector<ApplyRow> Rows() {
  ApplyRow row{.row = {.count = 1 << 20,
                       .contributions = 4,
                       .optimizer = "momentum",
                       .pieces = PieceKind::kCut,
                       .buckets = 6},
               .min_us = 3000.25,
               .median_us = 3355.44,
               .p99_us = 4000,
               .speed = 10,
               .triad_speed = 12.5,
               .ratio = 0.8,
               .wrong = 3};
  return {row};
}

TEST(ApplyReportTest, TheTableHasEveryColumn) {
  const std::string table = ApplyTable(Rows());
  EXPECT_THAT(table,
              HasSubstr("  size           count  optimizer  pieces     min    time     "
                        "p99   GB/s  triad GB/s  ratio  #wrong"));
  EXPECT_THAT(table, HasSubstr("4,194,304  1,048,576   momentum     cut  3000.2  3355.4  "
                               "4000.0  10.00       12.50   0.80       3"));
}

TEST(ApplyReportTest, TheHeaderSaysHowMuchMemoryIsGoneThrough) {
  ApplyOptions options;
  options.threads = 2;
  const ApplySettings settings{
      .working_set_bytes = 128'000'000, .memory_bytes = 512'000'000, .rows = {}};
  EXPECT_THAT(
      ApplyWork(options, settings, {.cache_bytes = 32'000'000}),
      AllOf(Contains(Pair("last-level cache", "32,000,000 bytes")),
            Contains(Pair("working set", "128,000,000 bytes a row, or more")),
            Contains(Pair("memory", "512,000,000 bytes at most, the triad's included")),
            Contains(Pair("contributions", "4")), Contains(Pair("threads", "2"))));
}

TEST(ApplyReportTest, TheContextOfAllBenchmarksWithoutRanks) {
  const BenchContext context{.command = "psring bench apply",
                             .environment = {{"cores", "2"}},
                             .load_before = "0.1",
                             .load_after = "0.9"};
  EXPECT_THAT(BenchHeader(context), AllOf(HasSubstr("psring bench apply\n"),
                                          HasSubstr("0.1"), Not(HasSubstr("ranks"))));
  EXPECT_THAT(ApplyFooter(context), AllOf(HasSubstr("0.9"), HasSubstr("plain stores")));
}

TEST(ApplyReportTest, JsonHasTheSameRows) {
  const BenchContext context{.command = "psring bench apply",
                             .environment = {{"cores", "2"}},
                             .load_before = "0.1",
                             .load_after = "0.9"};
  const ApplySettings settings{.working_set_bytes = 128, .memory_bytes = 512, .rows = {}};
  const auto json =
      nlohmann::json::parse(ApplyJson(context, ApplyOptions(), settings, Rows()));
  EXPECT_EQ(json["command"], "psring bench apply");
  EXPECT_FALSE(json.contains("ranks"));
  EXPECT_EQ(json["environment"]["cores"], "2");
  EXPECT_EQ(json["load_after"], "0.9");
  EXPECT_EQ(json["contributions"], 4);
  EXPECT_EQ(json["threads"], 1);
  EXPECT_EQ(json["working_set_bytes"], 128);
  EXPECT_EQ(json["memory_bytes"], 512);
  ASSERT_EQ(json["rows"].size(), 1u);
  const nlohmann::json& row = json["rows"][0];
  EXPECT_EQ(row["size"], 4 << 20);
  EXPECT_EQ(row["count"], 1 << 20);
  EXPECT_EQ(row["optimizer"], "momentum");
  EXPECT_EQ(row["pieces"], "cut");
  EXPECT_EQ(row["buckets"], 6);
  EXPECT_EQ(row["moved_bytes"], 32 << 20);
  EXPECT_EQ(row["time_us"]["min"], 3000.25);
  EXPECT_EQ(row["time_us"]["median"], 3355.44);
  EXPECT_EQ(row["time_us"]["p99"], 4000);
  EXPECT_EQ(row["gb_per_s"], 10);
  EXPECT_EQ(row["triad_gb_per_s"], 12.5);
  EXPECT_EQ(row["ratio"], 0.8);
  EXPECT_EQ(row["wrong"], 3);
}

}  // namespace
}  // namespace psring
