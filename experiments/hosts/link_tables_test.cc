#include "experiments/hosts/link_tables.h"

#include <string>
#include <vector>

#include "absl/strings/ascii.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_split.h"
#include "experiments/arm_result_test_util.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"

namespace psring {
namespace {

using testing::AllOf;
using testing::Contains;
using testing::Each;
using testing::ElementsAre;
using testing::HasSubstr;
using testing::Not;
using testing::SizeIs;
using testing::StartsWith;

// Every worker should move `formula` bytes, but `hot` as many as all others.
ArmRuns Make(const std::string& name, int workers, const std::string& hot) {
  ArmResult run;
  run.name = name;
  run.steps = 1;
  run.workers = workers;
  for (int i = 0; i <= workers; ++i) {
    const bool server = i == workers;
    EndpointTraffic endpoint;
    endpoint.name = server ? "server 0" : absl::StrCat("worker ", i);
    endpoint.role = server ? "server" : "worker";
    endpoint.host = endpoint.name;
    endpoint.link_out = endpoint.link_in =
        LinkAudit{.kernel = 1, .formula = endpoint.name == hot ? 1000 : 10, .framing = 0};
    run.endpoints.push_back(endpoint);
  }
  run.link_usage = LinkUsage{.links = {{.host = "worker 0"}, {.host = hot}},
                             .busiest = hot.empty() ? 0 : 1,
                             .floor = StepFloor{}};
  return {.runs = {run}};
}

// Lines with the blanks between columns made one, without the header and the end.
std::vector<std::string> Rows(const std::string& table) {
  std::vector<std::string> lines = absl::StrSplit(table, '\n', absl::SkipEmpty());
  for (std::string& line : lines) absl::RemoveExtraAsciiWhitespace(&line);
  lines.erase(lines.begin());
  return lines;
}

TEST(LinkTablesTest, AFewLinksAreAllThere) {
  const std::vector<std::string> rows = Rows(LinkAuditTable({Make("a", 3, "server 0")}));
  EXPECT_THAT(rows, SizeIs(8));
  EXPECT_THAT(rows, AllOf(Contains("a / worker 2 in 10 0 0 0 0 0 1 0 0 0"),
                          Contains("a / server 0 out 1,000 0 0 0 0 0 1 0 0 0")));
}

TEST(LinkTablesTest, OfManyLinksTheTellingOnes) {
  const std::vector<std::string> rows = Rows(LinkAuditTable(
      {Make("a", 8, "server 0"), Make("b", 8, "worker 0"), Make("same", 8, "")}));
  EXPECT_THAT(
      rows,
      ElementsAre(StartsWith("a / server 0 out"), StartsWith("a / server 0 in"),
                  StartsWith("a / worker 0 out"), StartsWith("a / worker 0 in"),
                  StartsWith("b / worker 0 out"), StartsWith("b / worker 0 in"),
                  StartsWith("b / worker 1 out"), StartsWith("b / worker 1 in"),
                  StartsWith("same / worker 0 out"), StartsWith("same / worker 0 in"),
                  "the busiest link of each arm, and a worker's; all 54 rows are in "
                  "summary.json, the readings in run.db"));
}

TEST(LinkTablesTest, ArmsWithoutHostsOrEndHaveNone) {
  ArmRuns failed = Make("a", 3, "server 0");
  failed.runs[0].error = "worker 0: bias[2] is nan";
  ArmRuns without = Make("a", 3, "server 0");
  without.runs[0].link_usage.reset();
  for (EndpointTraffic& endpoint : without.runs[0].endpoints) {
    endpoint.link_out = endpoint.link_in = std::nullopt;
  }
  EXPECT_EQ(LinkAuditTable({failed, without}), "");
  EXPECT_EQ(HotSpotTable({failed, without}), "");
}

TEST(LinkTablesTest, EveryColumn) {
  ArmRuns arm{.runs = {FullArmResult()}};
  EXPECT_THAT(Rows(LinkAuditTable({arm})),
              Contains("servers / worker 0 out 21 20 10 3 66 1 100 1 4 5"));
  EXPECT_THAT(
      Rows(HotSpotTable({arm})),
      AllOf(Contains("servers / worker 0 out 8 2 25.0 % 12.5 % 1.50 375.000 1.750 "
                     "1,514 5 6.2 %"),
            Each(Not(HasSubstr("no floor")))));
  arm.runs[0].link_usage->floor.reset();
  arm.runs[0].link_usage->no_floor = "no link was probed";
  EXPECT_THAT(
      Rows(HotSpotTable({arm})),
      AllOf(Contains("servers / worker 0 out 8 2 25.0 % 12.5 % 1.50 - - 1,514 5 6.2 %"),
            Contains("note: servers: no floor: no link was probed")));
}

TEST(LinkTablesTest, AHostIsCalledAfterAllItsProcesses) {
  ArmRuns arm{.runs = {FullArmResult()}};
  arm.runs[0].endpoints.push_back(
      {.name = "server 0", .role = "server", .host = "worker 0"});
  for (const std::string& table : {LinkAuditTable({arm}), HotSpotTable({arm})}) {
    EXPECT_THAT(Rows(table), Contains(StartsWith("servers / worker 0 + server 0 out")));
  }
}

TEST(LinkTablesTest, ALinkOnWhichNothingBelongsAndNothingWasHasNoRow) {
  ArmRuns arm = Make("a", 3, "server 0");
  for (EndpointTraffic& endpoint : arm.runs[0].endpoints) {
    if (endpoint.role == "server") continue;
    endpoint.link_out->kernel = endpoint.link_in->kernel = 0;
    endpoint.link_out->formula = 0;
  }
  EXPECT_THAT(
      Rows(LinkAuditTable({arm})),
      ElementsAre(StartsWith("a / worker 0 in 10"), StartsWith("a / worker 1 in 10"),
                  StartsWith("a / worker 2 in 10"), StartsWith("a / server 0 out"),
                  StartsWith("a / server 0 in")));
}

TEST(LinkTablesTest, NotesSayWhatIsNotValid) {
  std::vector<ArmRuns> arms = {Make("a", 2, "server 0"), Make("b", 2, "server 0"),
                               Make("c", 2, "server 0")};
  arms[0].runs[0].validity = Validity{};
  arms[1].runs[0].validity = {.kind = Validity::Kind::kVoid, .why = "low"};
  arms[2].runs[0].validity = {.kind = Validity::Kind::kCannotBeTold, .why = "few"};
  const std::vector<std::string> rows = Rows(HotSpotTable(arms));
  EXPECT_THAT(rows, SizeIs(5));
  EXPECT_EQ(rows[3], "void: b: low");
  EXPECT_EQ(rows[4], "cannot be told whether links set its times: c: few");
  EXPECT_THAT(Rows(HotSpotTable({arms[0]})), Each(Not(HasSubstr("void"))));
}

}  // namespace
}  // namespace psring
