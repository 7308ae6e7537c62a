#include "experiments/staleness_chart.h"

#include <string>
#include <vector>

#include "absl/strings/ascii.h"
#include "absl/strings/str_split.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"

namespace psring {
namespace {

using testing::ElementsAre;

ArmRuns Arm(const std::string& name, const std::vector<int64_t>& histogram) {
  ArmResult run;
  run.name = name;
  Add({.mean = 0, .max = 0, .histogram = histogram}, &run.contributions.staleness);
  return {.runs = {run}};
}

// Lines with the blanks between columns made one.
std::vector<std::string> LinesOf(const std::vector<ArmRuns>& arms) {
  std::vector<std::string> lines = absl::StrSplit(StalenessChart(arms), '\n');
  for (std::string& line : lines) absl::RemoveExtraAsciiWhitespace(&line);
  return lines;
}

TEST(StalenessChartTest, SharesWithBarsOfTheirHeight) {
  EXPECT_THAT(LinesOf({Arm("sync", {8}), Arm("ring", {}), Arm("async", {10, 490, 500})}),
              ElementsAre("staleness of contributions 0 1 2", "sync 100 % █",
                          "async 1 % ▁ 49 % ▄ 50 % ▄", ""));
}

// 0 is by itself, and 19 more make ranges of 3.
TEST(StalenessChartTest, ManyValuesAreTakenTogether) {
  std::vector<int64_t> histogram(20, 100);
  EXPECT_THAT(
      LinesOf({Arm("a", histogram)}),
      ElementsAre("staleness of contributions 0 1-3 4-6 7-9 10-12 13-15 16-18 19-21",
                  "a 5 % ▁ 15 % ▁ 15 % ▁ 15 % ▁ 15 % ▁ 15 % ▁ 15 % ▁ 5 % ▁", ""));
}

// 0 to 7 need a range each.
TEST(StalenessChartTest, AsManyAsThereAreRangesAreNotTakenTogether) {
  std::vector<int64_t> histogram(8, 100);
  EXPECT_EQ(LinesOf({Arm("a", histogram)})[0],
            "staleness of contributions 0 1 2 3 4 5 6 7");
  histogram.push_back(100);
  EXPECT_EQ(LinesOf({Arm("a", histogram)})[0],
            "staleness of contributions 0 1-2 3-4 5-6 7-8");
}

TEST(StalenessChartTest, AFewOutliersDoNotWidenTheRanges) {
  std::vector<int64_t> histogram(500);
  histogram[0] = 600;
  histogram[1] = 395;
  histogram[499] = 5;
  EXPECT_THAT(LinesOf({Arm("a", histogram)}),
              ElementsAre("staleness of contributions 0 1 2 3 4 5 6 7+",
                          "a 60 % ▅ 40 % ▃ 0 % ▁", ""));
}

TEST(StalenessChartTest, FitsAHundredColumns) {
  std::vector<int64_t> histogram(80, 1);
  for (absl::string_view line : absl::StrSplit(
           StalenessChart({Arm("fixed_delay", histogram), Arm("sync", {1})}), '\n')) {
    EXPECT_LE(line.size(), 100 + 2 * 8) << line;  // A bar is 3 bytes.
  }
}

TEST(StalenessChartTest, WithoutContributionsThereIsNone) {
  EXPECT_EQ(StalenessChart({Arm("ring", {})}), "");
}

}  // namespace
}  // namespace psring
