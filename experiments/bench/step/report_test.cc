#include "experiments/bench/step/report.h"

#include <optional>
#include <string>
#include <vector>

#include "gtest/gtest.h"
#include "nlohmann/json.hpp"

namespace psring {
namespace {

const StepSettings kSettings = {.widths = {784, 10}, .caps = {}, .parameters = 7850};

std::vector<StepRow> Rows() {
  StepRow ring;
  ring.contestant = {"psring", "ring", "tcp", 2, 1 << 20};
  ring.samples_per_second = 12345.6;
  ring.min_ms = 9;
  ring.median_ms = 10.125;
  ring.p99_ms = 20;
  ring.forward_ms = 2;
  ring.backward_ms = 3;
  ring.exposed_ms = 4;
  ring.optimizer_ms = 1;
  ring.other_ms = 0.25;
  ring.first_loss = 2.5;
  ring.last_loss = 0.75;
  StepRow ddp = ring;
  ddp.contestant = {"pytorch", "ddp", "tcp", 2, 1000};
  ddp.exposed_ms = std::nullopt;
  ddp.ratio = 1.625;
  StepRow alone = ring;
  alone.contestant = {"psring", "local", "", 1, std::nullopt};
  return {ring, ddp, alone};
}

TEST(StepReportTest, TableHasNothingWhereThereIsNothing) {
  EXPECT_EQ(
      StepTable(kSettings, Rows()),
      "  peer       arm  transport  ranks  parameters   cap  samples/s   min   step    "
      "p99  forward  backward  exposed  optimizer  other    loss  ratio\n"
      "  psring    ring        tcp      2       7,850    1M     12,346  9.00  10.12  "
      "20.00     2.00      3.00     4.00       1.00   0.25  0.7500\n"
      "  pytorch    ddp        tcp      2       7,850  1000     12,346  9.00  10.12  "
      "20.00     2.00      3.00                1.00   0.25  0.7500   1.62\n"
      "  psring   local                 1       7,850           12,346  9.00  10.12  "
      "20.00     2.00      3.00     4.00       1.00   0.25  0.7500\n");
}

TEST(StepReportTest, SaysWhatIsTrained) {
  const Environment work = StepWork({}, kSettings);
  EXPECT_EQ(work[0].second, "784-1024-1024-10, 7,850 parameters");
  EXPECT_EQ(work[1].second, "64 samples a rank and step, made up and in memory");
  EXPECT_EQ(work[2].second, "sgd, learning rate 0.01, momentum 0.9");
}

TEST(StepReportTest, JsonHasEveryColumn) {
  const BenchContext context = {.command = "psring bench step",
                                .environment = {{"cores", "2"}},
                                .load_before = "0.1",
                                .load_after = "0.2",
                                .ranks = 2};
  const auto json =
      nlohmann::json::parse(StepJson(context, StepBenchOptions(), kSettings, Rows()));
  EXPECT_EQ(json["command"], "psring bench step");
  EXPECT_EQ(json["ranks"], 2);
  EXPECT_EQ(json["environment"]["cores"], "2");
  EXPECT_EQ(json["load_after"], "0.2");
  EXPECT_EQ(json["model"], "784-1024-1024-10");
  EXPECT_EQ(json["parameters"], 7850);
  EXPECT_EQ(json["batch"], 64);
  ASSERT_EQ(json["rows"].size(), 3);
  EXPECT_EQ(json["rows"][0], nlohmann::json::parse(R"({
    "peer": "psring", "arm": "ring", "transport": "tcp", "ranks": 2,
    "cap_bytes": 1048576, "samples_per_second": 12345.6,
    "step_ms": {"min": 9.0, "median": 10.125, "p99": 20.0},
    "parts_ms": {"forward": 2.0, "backward": 3.0, "exposed": 4.0, "optimizer": 1.0,
                 "other": 0.25},
    "first_loss": 2.5, "last_loss": 0.75, "ratio": null})"));
  EXPECT_EQ(json["rows"][1]["ratio"], 1.625);
  EXPECT_TRUE(json["rows"][1]["parts_ms"]["exposed"].is_null());
  EXPECT_TRUE(json["rows"][2]["cap_bytes"].is_null());
}

}  // namespace
}  // namespace psring
