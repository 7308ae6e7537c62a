#include "experiments/figures/figures_page.h"

#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "absl/strings/str_join.h"
#include "experiments/figures/figure_charts.h"
#include "experiments/report/html.h"
#include "experiments/report/words.h"

namespace psring {
namespace {

std::string Traffic(const TrafficGrowth& growth, PageCharts* charts) {
  constexpr int kMost = kMostFigureWorkers;
  const auto server = static_cast<double>(growth.BytesOf(ExchangeWay::kOneServer, kMost));
  const auto ring = static_cast<double>(growth.BytesOf(ExchangeWay::kRing, kMost));
  return absl::StrCat(
      Paragraph(absl::StrFormat(
          "One server receives the gradients of all N workers and sends all of them the "
          "parameters: N times the model's size M over its link, in each direction. M "
          "is %s here (%s), and with %d workers that is %s in each step.",
          RoughBytes(static_cast<double>(growth.model_bytes)), growth.model, kMost,
          RoughBytes(server))),
      Paragraph(absl::StrFormat(
          "A rank of a ring sends 2 (N - 1) / N times M and receives as much, however "
          "many there are: it tends to 2 M, and with %d ranks is %.3f M, or %s. The "
          "server's link then carries %s times that.",
          kMost, ring / static_cast<double>(growth.model_bytes), RoughBytes(ring),
          Times(server / ring))),
      charts->Add({GrowthChart(growth)}, /*large=*/true));
}

std::string Steps(const FiguresData& data, PageCharts* charts) {
  std::vector<Chart> grids;
  for (const ChunkGrid& grid : data.grids) grids.push_back(GridChart(grid, data.ranks));
  return absl::StrCat(
      Paragraph(absl::StrFormat(
          "%d ranks cut their values into %d chunks and send one chunk to the next rank "
          "in each of %d steps. In the first half whoever receives a chunk adds its own "
          "term; in the second the finished sums go round. A cell names the ranks whose "
          "terms it holds, arrows and frames are what has just moved.",
          data.ranks, data.ranks, static_cast<int>(data.grids.size()) - 1)),
      Paragraph("The cells are what the ranks of an all-reduce have really sent each "
                "other over TCP, when this page was made."),
      charts->AddAll(grids));
}

std::string Sentence(const StepTimeLine& line) {
  if (line.applied.empty()) {
    return absl::StrCat("In ", line.title, " no gradient was applied in this time.");
  }
  return line.stale() == 0
             ? absl::StrFormat(
                   "In %s all %d gradients that were applied in this time "
                   "had been computed from the newest parameters.",
                   line.title, static_cast<int>(line.applied.size()))
             : absl::StrFormat(
                   "In %s %d of %d were stale, by up to %d updates: others "
                   "had been applied since their worker had read the "
                   "parameters.",
                   line.title, line.stale(), static_cast<int>(line.applied.size()),
                   line.most_stale());
}

std::string TimeLines(const std::vector<StepTimeLine>& lines, PageCharts* charts) {
  if (lines.empty()) {
    return absl::StrCat(
        Paragraph("This figure is drawn from a recorded run, and none was given. These "
                  "two commands make it:"),
        TextBlock("psring compare experiments/configs/consistency.textproto --out "
                  "runs/consistency\npsring figures runs/consistency"));
  }
  std::vector<Chart> drawn;
  std::vector<std::string> sentences;
  for (const StepTimeLine& line : lines) {
    drawn.push_back(TimeLineChart(line));
    sentences.push_back(Sentence(line));
  }
  return absl::StrCat(
      Paragraph(
          "Where workers keep step, all wait for the slowest. Where they do not, "
          "nobody waits for another one, and the price is that gradients are stale."),
      Paragraph(absl::StrJoin(sentences, " ")), charts->AddAll(drawn, /*large=*/true));
}

std::string Memory(const FiguresData& data, PageCharts* charts) {
  const auto parameters = static_cast<double>(kSharedParameters);
  std::vector<std::string> summands;
  for (const MixedPrecisionPart& part : MixedPrecisionParts()) {
    summands.push_back(absl::StrCat(part.bytes));
  }
  std::string html = Paragraph(absl::StrFormat(
      "In plain data parallelism every rank keeps everything. With Adam in mixed "
      "precision that is %s = %d bytes for a parameter: %d billion parameters take "
      "%s on every rank. Where %d ranks share out the optimizer's state, %s remain "
      "on each; with gradients too, %s; with parameters too, %s. (The count and the "
      "three levels: Rajbhandari et al., ZeRO, 2020.)",
      absl::StrJoin(summands, " + "), MixedPrecisionBytes(),
      kSharedParameters / 1'000'000'000,
      RoughBytes(parameters * BytesAtLevel(0, kSharingRanks)), kSharingRanks,
      RoughBytes(parameters * BytesAtLevel(1, kSharingRanks)),
      RoughBytes(parameters * BytesAtLevel(2, kSharingRanks)),
      RoughBytes(parameters * BytesAtLevel(3, kSharingRanks))));
  absl::StrAppend(
      &html,
      charts->Add({SharingChart(), SharedModelChart(kSharedParameters, kSharingRanks)}));
  absl::StrAppend(
      &html,
      Paragraph(absl::StrFormat(
          "psring trains in fp32, and can share out the optimizer's state (ring { "
          "sharded_optimizer: true }). These are the budgets that its workers' memory "
          "is held against, of %d ranks with %s.",
          kSharingRanks, data.growth.model)));
  absl::StrAppend(&html, charts->Add({RingBudgetChart(data.budgets)}, /*large=*/true));
  return html;
}

}  // namespace

std::string FiguresHtml(const FiguresData& data, const PageAssets& assets) {
  PageCharts charts;
  std::string body =
      "<header>\n<h1>Parameter servers and ring all-reduce, in figures</h1>\n<p "
      "class=\"about\">From psring's formulas, its running code and recorded "
      "runs.</p>\n</header>\n";
  // One after the other: charts are numbered as they come.
  absl::StrAppend(&body, Section("Traffic against the number of workers", "traffic",
                                 Traffic(data.growth, &charts)));
  absl::StrAppend(&body, Section("Reduce-scatter and all-gather, step by step", "ring",
                                 Steps(data, &charts)));
  absl::StrAppend(
      &body, Section("Keeping step, and not", "time", TimeLines(data.lines, &charts)));
  absl::StrAppend(&body,
                  Section("Memory, kept and shared", "memory", Memory(data, &charts)));
  return WholePage("Figures", body, "Made by psring figures.", charts, assets);
}

}  // namespace psring
