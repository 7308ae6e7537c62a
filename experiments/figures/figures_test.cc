// The figures' numbers, by hand; their charts and their page.
#include <string>
#include <vector>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "common/status_matchers.h"
#include "experiments/config.h"
#include "experiments/explain/collective_story.h"
#include "experiments/figures/chunk_grid.h"
#include "experiments/figures/figure_charts.h"
#include "experiments/figures/figure_model.h"
#include "experiments/figures/figures_page.h"
#include "experiments/figures/memory_shares.h"
#include "experiments/figures/step_time_line.h"
#include "experiments/figures/traffic_growth.h"
#include "experiments/report/chart_test_util.h"
#include "experiments/resolve_arms.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "nlohmann/json.hpp"

namespace psring {
namespace {

using Json = nlohmann::ordered_json;
using testing::AllOf;
using testing::DoubleNear;
using testing::ElementsAre;
using testing::HasSubstr;
using testing::Not;
using testing::SizeIs;

TEST(FigureModelTest, ItsOwnModelIsThatOfTheConfiguration) {
  ASSERT_OK_AND_ASSIGN(const Experiment experiment,
                       LoadExperiment("experiments/configs/fashion_mnist.textproto", {}));
  ASSERT_OK_AND_ASSIGN(
      const std::vector<JobSpec> specs,
      ResolveArms(experiment, "ring",
                  {.train_count = 60'000, .features = 784, .classes = 10}));
  const JobSpec ours = FigureJob(FigureLayout("fashion_mnist"), specs[0].workers());
  ASSERT_EQ(ours.tensors_size(), specs[0].tensors_size());
  for (int i = 0; i < ours.tensors_size(); ++i) {
    EXPECT_EQ(ours.tensors(i).SerializeAsString(),
              specs[0].tensors(i).SerializeAsString());
  }
  const Buckets& buckets = specs[0].experiment().buckets();
  EXPECT_EQ(ours.experiment().buckets().cap_bytes(), buckets.cap_bytes());
  EXPECT_EQ(ours.experiment().buckets().first_cap_bytes(), buckets.first_cap_bytes());
  EXPECT_EQ(FigureLayout("resnet50").count(), 25'557'032);
}

TEST(TrafficGrowthTest, AServersLinkGrowsAndARanksTendsToTwoModels) {
  ASSERT_OK_AND_ASSIGN(const TrafficGrowth growth, GrowthOf("fashion_mnist"));
  const int64_t model = growth.model_bytes;
  EXPECT_EQ(model, 4 * 235'146);
  for (const int workers : {1, 2, 8, 64}) {
    SCOPED_TRACE(workers);
    EXPECT_EQ(growth.BytesOf(ExchangeWay::kOneServer, workers), workers * model);
    // Chunks have whole elements: off by one for each that is left out, of two buckets.
    const double ring = 2.0 * (workers - 1) / workers * static_cast<double>(model);
    const auto about = DoubleNear(ring, 2 * 2 * 4);
    EXPECT_THAT(static_cast<double>(growth.BytesOf(ExchangeWay::kRing, workers)), about);
    // Servers have whole elements too; the first ones have one more of each bucket.
    EXPECT_THAT(
        static_cast<double>(growth.BytesOf(ExchangeWay::kColocatedServers, workers)),
        DoubleNear(ring, 2.0 * 4 * workers));
    EXPECT_GE(growth.BytesOf(ExchangeWay::kDedicatedServers, workers), model);
    EXPECT_LE(growth.BytesOf(ExchangeWay::kDedicatedServers, workers),
              model + 2 * 4 * workers);
  }
}

TEST(MemorySharesTest, BytesByHand) {
  EXPECT_EQ(MixedPrecisionBytes(), 2 + 2 + 4 + 4 + 4);
  EXPECT_DOUBLE_EQ(BytesAtLevel(0, 64), 16);
  EXPECT_DOUBLE_EQ(BytesAtLevel(1, 64), 4 + 12.0 / 64);
  EXPECT_DOUBLE_EQ(BytesAtLevel(2, 64), 2 + 14.0 / 64);
  EXPECT_DOUBLE_EQ(BytesAtLevel(3, 64), 16.0 / 64);
  for (int level = 0; level < kSharingLevels; ++level) {
    EXPECT_DOUBLE_EQ(BytesAtLevel(level, 1), 16) << level;
  }
}

TEST(MemorySharesTest, PsringSharesTheOptimizersState) {
  std::vector<std::string> state;
  for (const BudgetBytes& budget : RingBudgets("fashion_mnist", 4)) {
    if (budget.purpose != "optimizer state") {
      EXPECT_EQ(budget.bytes_per_parameter, 4);
      continue;
    }
    state.push_back(absl::StrCat(budget.optimizer, budget.sharded ? ", sharded " : " ",
                                 absl::SixDigits(budget.bytes_per_parameter)));
  }
  // Of buckets of 34,186 and 200,960 elements the larger quarters are 8,547 and 50,240.
  EXPECT_THAT(
      state, ElementsAre("SGD 0", "SGD, sharded 0", "momentum 4",
                         "momentum, sharded 1.00001", "Adam 8", "Adam, sharded 2.00002"));
}

// "0+1 0 2" is a rank's row: the terms that it has of each chunk.
std::vector<std::string> RowsOf(const ChunkGrid& grid, int ranks) {
  std::vector<std::string> rows(ranks);
  for (const ChunkCell& cell : grid.cells) {
    absl::StrAppend(&rows[cell.rank], cell.chunk > 0 ? " " : "",
                    cell.from ? absl::StrCat("<", *cell.from, ":") : "",
                    absl::StrJoin(cell.terms, "+"));
  }
  return rows;
}

TEST(ChunkGridTest, ARingOfThree) {
  ASSERT_OK_AND_ASSIGN(const Story story, TellAllReduce("ring", 3, 3));
  const std::vector<ChunkGrid> grids = GridsOf(story);
  ASSERT_THAT(grids, SizeIs(5));
  EXPECT_THAT(RowsOf(grids[0], 3), ElementsAre("0 0 0", "1 1 1", "2 2 2"));
  EXPECT_THAT(RowsOf(grids[1], 3), ElementsAre("0 <2:0+2 0", "1 1 <0:0+1", "<1:1+2 2 2"));
  EXPECT_THAT(RowsOf(grids[2], 3),
              ElementsAre("<2:0+1+2 0+2 0", "1 <0:0+1+2 0+1", "1+2 2 <1:0+1+2"));
  EXPECT_THAT(grids[2].title, HasSubstr("Step 2: reduce-scatter"));
  EXPECT_THAT(RowsOf(grids[3], 3), ElementsAre("0+1+2 0+2 <2:0+1+2", "<0:0+1+2 0+1+2 0+1",
                                               "1+2 <1:0+1+2 0+1+2"));
  EXPECT_THAT(RowsOf(grids[4], 3),
              ElementsAre("0+1+2 <2:0+1+2 0+1+2", "0+1+2 0+1+2 <0:0+1+2",
                          "<1:0+1+2 0+1+2 0+1+2"));
  EXPECT_THAT(grids[4].title, HasSubstr("Step 4: all-gather"));
}

StepTimeLine MadeUpLine() {
  return {
      .title = "async",
      .mode = "parameter server, async",
      .lockstep = false,
      .workers = 2,
      .server = 1,
      .length_ms = 10,
      .error_ms = 0.01,
      .bars = {{.rank = 1, .step = 7, .begin = 0, .computed = 4, .end = 6}},
      .applied = {{.rank = 1, .step = 7, .launched = 4, .applied = 5, .staleness = 0},
                  {.rank = 0, .step = 3, .launched = {}, .applied = 7, .staleness = 1},
                  {.rank = 0, .step = 4, .launched = 6, .applied = 8, .staleness = 9}},
      .unknown = ""};
}

FiguresData MadeUpData() {
  FiguresData data;
  data.growth = *GrowthOf("fashion_mnist");
  data.ranks = 2;
  data.grids = GridsOf(*TellAllReduce("ring", 2, 2));
  data.lines = {MadeUpLine()};
  data.budgets = RingBudgets("fashion_mnist", kSharingRanks);
  return data;
}

TEST(FigureChartsTest, EveryFieldIsInItsData) {
  const FiguresData data = MadeUpData();
  CheckChart(GrowthChart(data.growth));
  for (const ChunkGrid& grid : data.grids) CheckChart(GridChart(grid, 2));
  CheckChart(TimeLineChart(data.lines[0]));
  CheckChart(SharingChart());
  CheckChart(SharedModelChart(kSharedParameters, kSharingRanks));
  CheckChart(RingBudgetChart(data.budgets));
  StepTimeLine without = MadeUpLine();
  for (AppliedGradient& applied : without.applied) applied.launched.reset();
  CheckChart(TimeLineChart(without));
  without.applied.clear();
  CheckChart(TimeLineChart(without));
}

TEST(FigureChartsTest, ArrowsHaveTheColourOfTheirStaleness) {
  const Chart chart = TimeLineChart(MadeUpLine());
  const Json& arrows = chart.spec["datasets"]["arrows"];
  ASSERT_THAT(arrows, SizeIs(2));
  EXPECT_EQ(arrows[0]["kind"], "0, fresh");
  EXPECT_EQ(arrows[1]["kind"], "6 and more");
  EXPECT_EQ(arrows[1]["launched"], 6);
  EXPECT_EQ(chart.spec["datasets"]["updates"][1]["kind"], "1 or 2");
}

TEST(FigureChartsTest, WhatARingOfOneSendsIsInTheTableAlone) {
  const Chart chart = GrowthChart(MadeUpData().growth);
  EXPECT_EQ(chart.rows.size(), chart.spec["datasets"]["rows"].size() + 2);
  for (const Json& row : chart.spec["datasets"]["rows"]) EXPECT_GT(row["megabytes"], 0);
}

TEST(FiguresPageTest, SentencesHaveTheNumbers) {
  const std::string page = FiguresHtml(MadeUpData(), {});
  EXPECT_THAT(
      page, AllOf(HasSubstr("M is 941 kB here (fashion_mnist), and with 64 workers that "
                            "is 60.2 MB in each step"),
                  HasSubstr("with 64 ranks is 1.969 M, or 1.85 MB. The "
                            "server&#39;s link then carries 33 times that"),
                  HasSubstr("In async 2 of 3 were stale, by up to 9 updates"),
                  HasSubstr("2 + 2 + 4 + 4 + 4 = 16 bytes for a parameter: 70 billion "
                            "parameters take 1.12 TB on every rank")));
  EXPECT_THAT(page, AllOf(HasSubstr("293 GB remain"), HasSubstr("gradients too, 155 GB"),
                          HasSubstr("parameters too, 17.5 GB")));
}

TEST(FiguresPageTest, WithoutARunItSaysHowToGetOne) {
  FiguresData data = MadeUpData();
  EXPECT_THAT(FiguresHtml(data, {}), Not(HasSubstr("psring compare")));
  data.lines.clear();
  EXPECT_THAT(FiguresHtml(data, {}),
              HasSubstr("psring compare experiments/configs/consistency.textproto"));
}

TEST(FiguresPageTest, FreshAndAbsentGradientsHaveTheirSentences) {
  FiguresData data = MadeUpData();
  data.lines[0].applied.resize(1);
  EXPECT_THAT(FiguresHtml(data, {}), HasSubstr("In async all 1 gradients"));
  data.lines[0].applied.clear();
  EXPECT_THAT(FiguresHtml(data, {}), HasSubstr("no gradient was applied"));
}

}  // namespace
}  // namespace psring
