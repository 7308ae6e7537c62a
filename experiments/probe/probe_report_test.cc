#include "experiments/probe/probe_report.h"

#include <optional>
#include <string>
#include <vector>

#include "absl/strings/ascii.h"
#include "absl/strings/str_split.h"
#include "absl/strings/string_view.h"
#include "absl/strings/strip.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "nlohmann/json.hpp"

namespace psring {
namespace {

using testing::AllOf;
using testing::ElementsAre;
using testing::HasSubstr;
using testing::Not;

ProbeReport FullReport() {
  ProbeReport report;
  report.links = {{.link = {.kind = {.send_bit_s = 200'000'000,
                                     .receive_bit_s = 100'000'000,
                                     .queue_bytes = 1000,
                                     .burst_bytes = 2000,
                                     .congestion_control = "reno"},
                            .host = "worker 0",
                            .alike = 5},
                   .latency = absl::Microseconds(12.5),
                   .out_bytes_s = 23.75e6,
                   .in_bytes_s = 11.5e6,
                   .idle = 0.75}};
  report.add_rate = 4e9;
  report.arms.push_back(
      {.name = "ring",
       .apply_rate = std::nullopt,
       .floor = StepFloor{.seconds = 1.5, .host = "worker 1"},
       .cost = ExchangeCost{.latency = 0.25, .transfer = 1.75, .arithmetic = 0.125}});
  report.arms.push_back({.name = "servers",
                         .apply_rate = 3e9,
                         .floor = absl::FailedPreconditionError("void"),
                         .cost = absl::NotFoundError("nothing moves")});
  return report;
}

// The cells of the row that begins so.
std::vector<std::string> Cells(const std::string& text, const std::string& name) {
  std::vector<std::string> cells;
  for (const absl::string_view line : absl::StrSplit(text, '\n')) {
    absl::string_view rest = line;
    if (!absl::ConsumePrefix(&rest, "  ") || !absl::ConsumePrefix(&rest, name)) continue;
    for (const absl::string_view cell :
         absl::StrSplit(rest, "  ", absl::SkipWhitespace())) {
      cells.emplace_back(absl::StripAsciiWhitespace(cell));
    }
    break;
  }
  return cells;
}

TEST(ProbeReportTest, Text) {
  const std::string text = ReportText(FullReport());
  EXPECT_THAT(
      Cells(text, "worker 0 (5 alike)"),
      ElementsAre("200", "100", "12.5", "190.0", "92.0", "95.0 %", "92.0 %", "75.0 %"));
  EXPECT_THAT(Cells(text, "a ring's rank adds"), ElementsAre("4000"));
  EXPECT_THAT(Cells(text, "servers: a server sums and applies"), ElementsAre("3000"));
  EXPECT_THAT(Cells(text, "ring "), ElementsAre("1500.000", "worker 1 in", "2125.000",
                                                "250.000", "1750.000", "125.000"));
  EXPECT_THAT(text, AllOf(HasSubstr("floor ms"), Not(HasSubstr("void")),
                          Not(HasSubstr("loopback"))));
}

TEST(ProbeReportTest, NotesOfWhatIsNoFloor) {
  ProbeReport report = FullReport();
  report.links[0].idle = 0.01;
  EXPECT_THAT(ReportText(report), HasSubstr("  void: worker 0 (5 alike): processors"));
  report.links[0].link = {.kind = {}, .host = "loopback"};
  const std::string text = ReportText(report);
  EXPECT_THAT(text,
              AllOf(HasSubstr("the experiment has no hosts"), Not(HasSubstr("void:"))));
  EXPECT_THAT(Cells(text, "loopback"),
              ElementsAre("-", "-", "12.5", "190.0", "92.0", "-", "-", "1.0 %"));
}

TEST(ProbeReportTest, Json) {
  const nlohmann::json json = nlohmann::json::parse(ReportJson(FullReport()));
  const nlohmann::json& link = json["probed_links"][0];
  EXPECT_EQ(link["host"], "worker 0");
  EXPECT_EQ(link["alike"], 5);
  EXPECT_EQ(link["send_bit_s"], 200'000'000);
  EXPECT_EQ(link["receive_bit_s"], 100'000'000);
  EXPECT_EQ(link["queue_bytes"], 1000);
  EXPECT_EQ(link["burst_bytes"], 2000);
  EXPECT_EQ(link["congestion_control"], "reno");
  EXPECT_EQ(link["latency_us"], 12.5);
  EXPECT_EQ(link["out_bytes_s"], 23.75e6);
  EXPECT_EQ(link["in_bytes_s"], 11.5e6);
  EXPECT_EQ(link["idle"], 0.75);
  EXPECT_EQ(link["void"], false);
  EXPECT_EQ(json["add_bytes_s"], 4e9);
  const nlohmann::json& ring = json["arms"][0];
  EXPECT_EQ(ring["name"], "ring");
  EXPECT_TRUE(ring["apply_bytes_s"].is_null());
  EXPECT_EQ(ring["floor_ms"], 1500);
  EXPECT_EQ(ring["floor_host"], "worker 1");
  EXPECT_EQ(ring["floor_direction"], "in");
  EXPECT_EQ(ring["model_ms"]["total"], 2125);
  const nlohmann::json& servers = json["arms"][1];
  EXPECT_EQ(servers["apply_bytes_s"], 3e9);
  EXPECT_TRUE(servers["floor_ms"].is_null());
  EXPECT_TRUE(servers["model_ms"].is_null());
}

}  // namespace
}  // namespace psring
