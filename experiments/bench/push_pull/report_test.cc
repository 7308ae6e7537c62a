#include "experiments/bench/push_pull/report.h"

#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "nlohmann/json.hpp"

namespace psring {
namespace {

using testing::AllOf;
using testing::HasSubstr;

const PushPullRow kRow = {.size_bytes = 4096,
                          .contestant = "grpc",
                          .min_us = 50.25,
                          .median_us = 100.4,
                          .p99_us = 2000,
                          .out = 0.04096,
                          .in = 0.0819,
                          .server_in_and_out = 0.25,
                          .processor_seconds_per_gb = 1.5,
                          .wrong = 0};
const PushPullRatio kRatio = {.size_bytes = 4096,
                              .contestant = "psring",
                              .reference = "grpc",
                              .time = 1.25,
                              .goodput = 0.8,
                              .processor = 1.1,
                              .most_time = 1.3};

PushPullJob Job() {
  PushPullJob job;
  job.set_workers(2);
  job.set_servers(1);
  job.set_slot_bytes(1 << 20);
  job.mutable_mode()->mutable_bounded()->set_bound(3);
  job.mutable_wire()->mutable_fp16();
  return job;
}

TEST(ReportTest, TheTableHasAColumnForEachMeasure) {
  EXPECT_EQ(PushPullTable({kRow}),
            "  contestant   size  count   type   min  time   p99    out     in  "
            "server in+out  processor  #wrong\n"
            "  grpc        4,096  1,024  float  50.2   100  2000  0.041  0.082  "
            "        0.250      1.500       0\n");
}

TEST(ReportTest, UncheckedRowsSayThatNothingIsKnown) {
  PushPullRow row = kRow;
  row.wrong = std::nullopt;
  EXPECT_THAT(PushPullTable({row}), HasSubstr("N/A\n"));
}

TEST(ReportTest, RatiosSayWhatIsWantedOfThemAndWhetherTheyMeetIt) {
  PushPullRatio large = kRatio;
  large.size_bytes = 4 << 20;
  large.most_time = std::nullopt;
  large.least_goodput = 0.85;
  PushPullRatio between = kRatio;
  between.most_time = std::nullopt;
  EXPECT_EQ(PushPullRatioTable({kRatio, between, large}),
            "\n"
            "  ratio               size  time  goodput  processor                        "
            " wanted\n"
            "  psring / grpc      4,096  1.25     0.80       1.10         time at most "
            "1.30: met\n"
            "  psring / grpc      4,096  1.25     0.80       1.10\n"
            "  psring / grpc  4,194,304  1.25     0.80       1.10  goodput at least "
            "0.85: missed\n");
  EXPECT_EQ(PushPullRatioTable({}), "");
}

TEST(ReportTest, TheHeaderSaysWhoTakesPartAndHow) {
  const Environment work = PushPullWork(Job());
  EXPECT_THAT(EnvironmentText(work),
              AllOf(HasSubstr("bounded(3)"), HasSubstr("fp16 gradients"),
                    HasSubstr("at most 1,048,576 bytes")));
  BenchContext context{.command = "psring bench",
                       .environment = work,
                       .load_before = "",
                       .load_after = ""};
  EXPECT_THAT(BenchHeader(context), testing::Not(HasSubstr("ranks")));
}

TEST(ReportTest, JsonHasWhatTheTablesHave) {
  const BenchContext context{.command = "psring bench",
                             .environment = {},
                             .load_before = "1",
                             .load_after = "2"};
  const nlohmann::json json =
      nlohmann::json::parse(PushPullJson(context, Job(), {kRow}, {kRatio}));
  EXPECT_EQ(json["workers"], 2);
  EXPECT_EQ(json["mode"], "bounded(3)");
  EXPECT_EQ(json["wire"], "fp16");
  const nlohmann::json& row = json["rows"][0];
  EXPECT_EQ(row["size"], 4096);
  EXPECT_EQ(row["count"], 1024);
  EXPECT_EQ(row["time_us"]["median"], 100.4);
  EXPECT_EQ(row["server_in_and_out"], 0.25);
  EXPECT_EQ(row["processor_seconds_per_gb"], 1.5);
  EXPECT_EQ(row["wrong"], 0);
  const nlohmann::json& ratio = json["ratios"][0];
  EXPECT_EQ(ratio["goodput"], 0.8);
  EXPECT_EQ(ratio["most_time"], 1.3);
  EXPECT_TRUE(ratio["least_goodput"].is_null());
}

TEST(ReportTest, CsvHasTheRows) {
  EXPECT_EQ(PushPullCsv({kRow}),
            "size,count,type,contestant,min_us,median_us,p99_us,out,in,"
            "server_in_and_out,processor_seconds_per_gb,wrong\n"
            "4096,1024,float,grpc,50.250,100.400,2000.000,0.040960,0.081900,0.250000,"
            "1.500000,0\n");
}

}  // namespace
}  // namespace psring
