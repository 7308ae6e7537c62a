// What the page says and shows, from results that are made up.
#include <cmath>
#include <limits>
#include <optional>
#include <string>
#include <vector>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "experiments/arm_result.h"
#include "experiments/arm_result_test_util.h"
#include "experiments/arm_runs.h"
#include "experiments/report/chart_test_util.h"
#include "experiments/report/charts.h"
#include "experiments/report/contest.h"
#include "experiments/report/curves.h"
#include "experiments/report/exchange_line.h"
#include "experiments/report/html.h"
#include "experiments/report/page.h"
#include "experiments/report/run_results.h"
#include "experiments/report/settings_table.h"
#include "experiments/report/traffic_picture.h"
#include "experiments/report/verdict.h"
#include "experiments/report/words.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "nlohmann/json.hpp"

namespace psring {
namespace {

using Json = nlohmann::ordered_json;
using testing::AllOf;
using testing::Contains;
using testing::ElementsAre;
using testing::HasSubstr;
using testing::IsEmpty;
using testing::Not;
using testing::SizeIs;

TEST(WordsTest, NumbersHaveThreeDigitsAndUnits) {
  EXPECT_EQ(RoughBytes(999), "999 bytes");
  EXPECT_EQ(RoughBytes(35'447'295), "35.4 MB");
  EXPECT_EQ(RoughBytes(999'600), "1.00 MB");
  EXPECT_EQ(RoughSeconds(0.00353), "3.53 ms");
  EXPECT_EQ(RoughSeconds(89.44), "89.4 s");
  EXPECT_EQ(Times(1.234), "1.23");
  EXPECT_EQ(Times(5.04), "5.0");
  EXPECT_EQ(Times(12.3), "12");
  EXPECT_EQ(RoughNumber(27'483.2), "27,483");
  EXPECT_EQ(RoughNumber(7.9), "7.90");
}

// An arm that came to its end and has all certificates.
ArmResult Arm(const std::string& name, int workers, int servers, double speed) {
  ArmResult arm;
  arm.name = name;
  arm.mode = servers > 0 ? "parameter server, sync, ring order" : "ring all-reduce";
  arm.seed = 1;
  arm.steps = 10;
  arm.workers = workers;
  arm.servers = servers;
  arm.samples_per_second = arm.applied_samples_per_second = speed;
  arm.step_ms = {.p50 = 2, .p99 = 2, .mean = 2, .forward = 1.5, .exposed = 0.5};
  arm.step_ms.peer_late = 0.4;
  arm.step_ms.on_wire = 0.1;
  arm.final_loss = 0.5;
  arm.replica = arm.traffic = arm.memory = {.verdict = Verdict::kPass, .why = "equal"};
  return arm;
}

ArmResult Reaching(ArmResult arm, double seconds) {
  arm.time_to_target_seconds = seconds;
  arm.convergence = Convergence::kReachedTarget;
  return arm;
}

RunResults Ended(std::vector<ArmResult> ended, double target = 0) {
  RunResults run;
  run.experiment.set_name("made_up");
  run.experiment.mutable_training()->set_target_accuracy(target);
  run.ended = std::move(ended);
  return run;
}

ReportVerdict Judge(const RunResults& run) {
  const std::vector<ArmRuns> arms = GroupByArm(run.ended);
  return VerdictOf(run, arms,
                   ContestOf(arms, run.experiment.training().target_accuracy()));
}

TEST(VerdictTest, TheFasterArchitectureWinsBySamplesPerSecond) {
  const ReportVerdict verdict =
      Judge(Ended({Arm("ps", 2, 1, 1000), Arm("ring", 2, 0, 1500)}));
  EXPECT_EQ(
      verdict.winner,
      "A ring won: ring trained 1,500 samples/s, 1.50 times as many as ps, the best arm "
      "with parameter servers (1,000 samples/s).");
  EXPECT_THAT(
      verdict.why,
      ElementsAre("A step of ring took 2.00 ms on average; for 25.0 % of that its "
                  "worker waited for communication that backward did not hide, "
                  "80.0 % of it because another worker was late.",
                  HasSubstr("A step of ps took")));
  EXPECT_EQ(verdict.trust, Trust::kYes);
  EXPECT_THAT(verdict.reasons,
              ElementsAre("All 6 certificates that apply pass: replica, traffic, "
                          "memory."));
}

TEST(VerdictTest, AnArmIsARingByAnyAlgorithm) {
  ArmResult automatic = Arm("auto", 2, 0, 1500);
  automatic.mode = "auto all-reduce";
  ArmResult alone = Arm("alone", 1, 0, 9000);
  alone.mode = "local";
  EXPECT_THAT(Judge(Ended({Arm("ps", 2, 1, 1000), automatic, alone})).winner,
              HasSubstr("A ring won: auto trained 1,500 samples/s, 1.50 times as many as "
                        "ps, the best arm with parameter servers"));
  EXPECT_EQ(ArchitectureOf(alone), Architecture::kLocal);
}

TEST(VerdictTest, WithATargetTimeDecidesAndTheLastIsNamed) {
  const ReportVerdict verdict = Judge(Ended(
      {Reaching(Arm("sync", 4, 1, 9000), 6), Reaching(Arm("async", 4, 1, 1000), 2.5),
       Reaching(Arm("ring", 4, 0, 5000), 5)},
      0.82));
  EXPECT_EQ(verdict.winner,
            "Parameter servers won: async reached 82 % test accuracy after 2.50 s, 2.0 "
            "times as "
            "fast as ring, the best ring (5.00 s), and 2.4 times as fast as sync, the "
            "last of 3 arms "
            "with 4 workers (6.00 s).");
  EXPECT_EQ(verdict.trust, Trust::kWithCare);
  EXPECT_THAT(verdict.reasons, Contains(HasSubstr("run once, with one seed")));
}

TEST(VerdictTest, WhoNeverReachesTheTargetLoses) {
  const ReportVerdict verdict =
      Judge(Ended({Arm("ps", 2, 1, 9000), Reaching(Arm("ring", 2, 0, 5), 3)}, 0.5));
  EXPECT_EQ(
      verdict.winner,
      "A ring won: ring reached 50 % test accuracy after 3.00 s, which ps, the best arm "
      "with parameter servers, never did.");
}

// Three seeds of each: one reaches it in two, the other in one.
TEST(VerdictTest, WhoReachesTheTargetInSomeSeedsMayBeTooCloseToCall) {
  std::vector<ArmResult> runs;
  for (int seed = 0; seed < 3; ++seed) {
    ArmResult ps = Arm("ps", 2, 1, 9000);
    ArmResult ring = Arm("ring", 2, 0, 9000);
    runs.push_back(seed < 1 ? Reaching(ps, 2) : ps);
    runs.push_back(seed < 2 ? Reaching(ring, 3) : ring);
  }
  EXPECT_EQ(Judge(Ended(runs, 0.5)).winner,
            "No clear winner: ring reached 50 % test accuracy after 3.00 s, and ps, the "
            "best arm with parameter servers, never.");
}

TEST(VerdictTest, SmallDifferencesAndOverlappingSeedsAreNoVictory) {
  EXPECT_THAT(Judge(Ended({Arm("ps", 2, 1, 1000), Arm("ring", 2, 0, 1030)})).winner,
              "No clear winner: ring trained 1,030 samples/s, and ps, the best arm with "
              "parameter servers, 1,000 samples/s.");
  std::vector<ArmResult> runs;
  for (const auto& [ps, ring] : {std::pair(1000, 1100), std::pair(1300, 1600)}) {
    runs.push_back(Arm("ps", 2, 1, ps));
    runs.push_back(Arm("ring", 2, 0, ring));
  }
  EXPECT_THAT(Judge(Ended(runs)).winner, HasSubstr("No clear winner: ring"));
  runs[2].applied_samples_per_second = 1001;
  EXPECT_THAT(Judge(Ended(runs)).winner, HasSubstr("A ring won: ring trained"));
}

TEST(VerdictTest, ArmsOfAsManyWorkersAreComparedTheMostOfBoth) {
  const ReportVerdict verdict = Judge(
      Ended({Arm("one_2", 2, 1, 100), Arm("ring_2", 2, 0, 500), Arm("one_8", 8, 1, 8),
             Arm("ring_8", 8, 0, 40), Arm("one_16", 16, 1, 1000)}));
  EXPECT_THAT(verdict.winner,
              HasSubstr("A ring won: ring_8 trained 40.0 samples/s, 5.0 times "
                        "as many as one_8"));
}

TEST(VerdictTest, VoidAndDivergedArmsDoNotCount) {
  ArmResult fast = Arm("colocated", 8, 8, 1000);
  fast.hosts = "links of 100 Mbit/s";
  fast.validity = Validity{.kind = Validity::Kind::kVoid,
                           .cause = "processors",
                           .why = "processors were idle 4 % of the time"};
  ArmResult diverged = Arm("async", 8, 1, 2000);
  diverged.convergence = Convergence::kDiverged;
  const ReportVerdict verdict =
      Judge(Ended({fast, diverged, Arm("ps", 8, 1, 10), Arm("ring", 8, 0, 40)}));
  EXPECT_THAT(verdict.winner,
              HasSubstr("A ring won: ring trained 40.0 samples/s, 4.0 times "
                        "as many as ps"));
  EXPECT_EQ(verdict.trust, Trust::kWithCare);
  EXPECT_THAT(
      verdict.reasons,
      AllOf(Contains("The times of colocated are void: processors were idle 4 % of "
                     "the time."),
            Contains("async diverged.")));
  const ReportVerdict nobody = Judge(Ended({fast}));
  EXPECT_THAT(nobody.winner, HasSubstr("Nobody won: of 1 arms"));
  EXPECT_THAT(nobody.why,
              ElementsAre("Nothing can be said of the links, because colocated is void: "
                          "processors were idle 4 % of the time."));
}

TEST(VerdictTest, OneArmAndNoneAreNoComparison) {
  EXPECT_EQ(
      Judge(Ended({Arm("ring", 2, 0, 1500)})).winner,
      "ring trained 1,500 samples/s; there is no other arm with 2 workers to compare "
      "it with.");
  RunResults none = Ended({});
  none.unfinished.push_back(Arm("ring", 2, 0, 0));
  none.unfinished.back().error = "worker 1 was killed";
  none.not_run = {"ps"};
  const ReportVerdict verdict = Judge(none);
  EXPECT_EQ(verdict.winner, "Nobody won: no arm has come to its end.");
  EXPECT_EQ(verdict.trust, Trust::kNo);
  EXPECT_THAT(verdict.reasons,
              ElementsAre("No arm has come to its end.",
                          "ring did not come to its end: worker 1 was killed.",
                          "Not run, or not yet: ps."));
}

TEST(VerdictTest, AFailedCertificateIsTheFirstReason) {
  RunResults run = Ended({Arm("ps", 2, 1, 1000), Arm("ring", 2, 0, 1500)});
  run.ended[1].traffic = {.verdict = Verdict::kFail, .why = "worker 0 sent 3 bytes more"};
  run.environment = {{"cores", "2"}};
  const ReportVerdict verdict = Judge(run);
  EXPECT_EQ(verdict.trust, Trust::kNo);
  EXPECT_THAT(verdict.reasons,
              ElementsAre("1 of 6 certificates that apply fail; the first: traffic of "
                          "ring: worker 0 sent 3 bytes more.",
                          HasSubstr("Up to 3 processes shared 2 processor cores")));
}

TEST(SettingsTest, OnlyWhatDiffersIsShown) {
  JobSpec ps = ServersSpec(4, 1, Sync::RING);
  JobSpec ring = RingSpec(4);
  ring.mutable_experiment()->mutable_buckets()->set_cap_bytes(7);
  ps.mutable_experiment()->mutable_buckets()->set_cap_bytes(8);
  const ResultRows table = DifferentSettings({ps, ps, ring});
  EXPECT_THAT(table.header, ElementsAre("", "servers", "ring"));
  EXPECT_THAT(table.rows.front(), ElementsAre("architecture", "servers", "ring"));
  EXPECT_THAT(table.rows, Contains(ElementsAre("servers", "1", "0")));
  EXPECT_THAT(table.rows, Contains(ElementsAre("buckets.cap_bytes", "8", "7")));
  EXPECT_THAT(table.rows, Not(Contains(Contains("workers"))));
  EXPECT_THAT(DifferentSettings({ps}).rows, IsEmpty());
}

EndpointTraffic Endpoint(const std::string& name, int64_t out, int64_t in) {
  EndpointTraffic endpoint;
  endpoint.name = endpoint.host = name;
  endpoint.role = name.substr(0, name.find(' '));
  endpoint.steps = 10;
  endpoint.payload_out = endpoint.formula_out = 10 * out;
  endpoint.payload_in = endpoint.formula_in = 10 * in;
  return endpoint;
}

ArmResult WithEndpoints(ArmResult arm) {
  const int64_t step = 4'000'000;
  for (int rank = 0; rank < arm.workers; ++rank) {
    arm.endpoints.push_back(Endpoint(absl::StrCat("worker ", rank), step, step));
  }
  if (arm.servers > 0) {
    arm.endpoints.push_back(
        Endpoint("server 0", arm.workers * step + 1, arm.workers * step));
  }
  arm.buckets = {{.bytes = step, .algorithm = std::nullopt}};
  if (arm.servers == 0) arm.buckets.front().algorithm = RingMode::RING;
  return arm;
}

TEST(TrafficPictureTest, AServersLinkIsTheHottestAndARingsAreAlike) {
  const auto star =
      PictureOf(ServersSpec(4, 1, Sync::RING), WithEndpoints(Arm("ps", 4, 1, 1)));
  ASSERT_TRUE(star);
  EXPECT_THAT(star->nodes, SizeIs(5));
  EXPECT_EQ(star->links[star->hottest].name, "server 0");
  EXPECT_EQ(star->headline, "hottest link, server 0: 16.0 MB a step out");
  ArmResult arm = WithEndpoints(Arm("ring", 4, 0, 1));
  arm.link_usage.emplace();
  for (const auto& endpoint : arm.endpoints) {
    arm.link_usage->links.push_back(
        {.host = endpoint.host, .out = true, .bit_s = 1, .utilisation = 0.99});
  }
  JobSpec spec = RingSpec(4);
  for (const int rank : {0, 2, 1, 3}) spec.mutable_experiment()->add_ring_order(rank);
  const auto ring = PictureOf(spec, arm);
  ASSERT_TRUE(ring);
  EXPECT_TRUE(ring->ring);
  EXPECT_EQ(ring->links[0].name, "worker 0 to worker 2");
  EXPECT_EQ(ring->links[3].name, "worker 3 to worker 0");
  EXPECT_EQ(ring->headline,
            "every link alike: 4.00 MB a step, 99.0 % of the time in use");
  arm.buckets.front().algorithm = RingMode::TREE;
  EXPECT_FALSE(PictureOf(spec, arm)->ring);
  EXPECT_FALSE(PictureOf(LocalSpec(), Arm("alone", 1, 0, 1)));
}

Curve MakeCurve(const std::string& arm, double range) {
  Curve curve = {.arm = arm, .points = {}};
  for (int i = 1; i < 4; ++i) {
    curve.points.push_back({.step = i,
                            .seconds = 0.5 * i,
                            .bytes = 100.0 * i,
                            .y = {.median = 1, .min = 1 - range, .max = 1 + range}});
  }
  return curve;
}

TEST(ChartsTest, EveryFieldIsInItsData) {
  const std::vector<ArmRuns> arms = GroupByArm({FullArmResult(), Arm("ring", 2, 0, 1)});
  const ArmNames names = {"servers", "ring"};
  for (const auto& chart : {StepPartsChart(arms), ExposedCausesChart(arms),
                            StalenessHistogram(arms[0], names),
                            ContributionsChart({arms[0]}), PayloadChart(arms)}) {
    ASSERT_TRUE(chart);
    CheckChart(*chart);
  }
  for (const double range : {0.0, 0.25}) {
    const auto curves =
        CurveCharts("training loss", false, {MakeCurve("ring", range)}, names);
    ASSERT_THAT(curves, SizeIs(3));
    EXPECT_EQ(curves[2].title, "Training loss against bytes");
    EXPECT_THAT(curves[2].spec["layer"], SizeIs(range > 0 ? 2 : 1));
    for (const Chart& chart : curves) CheckChart(chart);
  }
  const auto picture =
      PictureOf(ServersSpec(2, 1, Sync::RING), WithEndpoints(Arm("ps", 2, 1, 1)));
  CheckChart(TrafficChart(*picture, 8e6));
  const auto exchange = ExchangeChart(
      {.arm = "ring",
       .step = 5,
       .error_ms = 0.1,
       .ranks = 2,
       .backward = {{.rank = 0, .begin = 1, .end = 3}},
       .buckets = {{.rank = 0, .bucket = 0, .ready = 2, .launched = 2.5, .done = 4}}});
  ASSERT_TRUE(exchange);
  CheckChart(*exchange);
}

TEST(ChartsTest, NothingToShowIsNoChart) {
  ArmResult fresh = Arm("sync", 2, 1, 1);
  fresh.step_ms = {};
  const std::vector<ArmRuns> arms = GroupByArm({fresh});
  EXPECT_FALSE(StepPartsChart(arms));
  EXPECT_FALSE(ExposedCausesChart(arms));
  EXPECT_FALSE(StalenessHistogram(arms[0], {"sync"}));
  EXPECT_FALSE(ContributionsChart(arms));
  EXPECT_FALSE(PayloadChart(arms));
  EXPECT_FALSE(ExchangeChart({}));
  EXPECT_THAT(CurveCharts("training loss", false, {}, {}), IsEmpty());
  Curve lost = MakeCurve("ring", 0);
  for (CurvePoint& point : lost.points) point.y.median = std::nan("");
  EXPECT_THAT(CurveCharts("training loss", false, {lost}, {"ring"}), IsEmpty());
}

TEST(ChartsTest, PartsFollowEachOtherAndEndAtTheStep) {
  const auto chart = StepPartsChart(GroupByArm({FullArmResult()}));
  ASSERT_TRUE(chart);
  ASSERT_THAT(chart->rows, SizeIs(6));
  for (size_t i = 1; i < 6; ++i) {
    EXPECT_EQ(chart->rows[i]["begin"], chart->rows[i - 1]["end"]);
  }
  EXPECT_DOUBLE_EQ(chart->rows[5]["end"], 2.1);
}

TEST(ChartsTest, LongHistogramsAreBinnedAndLoseNothing) {
  ArmResult arm = Arm("async", 4, 1, 1);
  arm.contributions.staleness = {.mean = 3, .max = 148, .histogram = {}};
  arm.contributions.staleness.histogram.assign(149, 2);
  const auto chart = StalenessHistogram(GroupByArm({arm})[0], {"async"});
  ASSERT_TRUE(chart);
  EXPECT_LE(chart->rows.size(), 21u);
  int64_t sum = 0;
  for (const Json& row : chart->rows) sum += row["contributions"].get<int64_t>();
  EXPECT_EQ(sum, 2 * 149);
  EXPECT_EQ(chart->rows[0]["staleness"], "0-7");
  EXPECT_EQ(chart->rows.back()["staleness"], "148+");
  // One that has all but a few in front.
  arm.contributions.staleness.histogram.assign(149, 0);
  arm.contributions.staleness.histogram[1] = 1000;
  arm.contributions.staleness.histogram[148] = 1;
  const auto steep = StalenessHistogram(GroupByArm({arm})[0], {"async"});
  ASSERT_THAT(steep->rows, SizeIs(3));
  EXPECT_EQ(steep->rows[1]["staleness"], "1");
  EXPECT_EQ(steep->rows[2]["staleness"], "2+");
}

constexpr char kHostile[] = "</script><img src=x onerror=\"alert('1')\"> & more";

TEST(HtmlTest, TextIsText) {
  EXPECT_EQ(Escape("<a href=\"x\">'&'"), "&lt;a href=&quot;x&quot;&gt;&#39;&amp;&#39;");
  const std::string json = InScript(Json{{"name", kHostile}});
  EXPECT_THAT(json, Not(HasSubstr("<")));
  EXPECT_EQ(Json::parse(json)["name"], kHostile);
  EXPECT_EQ(InScript(absl::string_view("a='</script>'")), "a='<\\/script>'");
  EXPECT_EQ(InScript(Json{{"name", "\xff"}}), "{\"name\":\"\xef\xbf\xbd\"}");
}

// Of made-up results; the contest points into it.
void FillPage(RunResults run, PageData* data) {
  data->run = std::move(run);
  data->ended = GroupByArm(data->run.ended);
  std::vector<ArmResult> all = data->run.ended;
  all.insert(all.end(), data->run.unfinished.begin(), data->run.unfinished.end());
  data->all = GroupByArm(all);
  data->contest = ContestOf(data->ended, 0);
  data->verdict = VerdictOf(data->run, data->ended, data->contest);
}

Json SpecsOf(const std::string& page) {
  const std::string mark = "id=\"charts\">";
  const size_t begin = page.find(mark) + mark.size();
  return Json::parse(page.substr(begin, page.find("</script>", begin) - begin));
}

TEST(PageTest, NamesCannotBecomeMarkup) {
  RunResults run = Ended({Arm(kHostile, 2, 1, 1), WithEndpoints(Arm("ring", 2, 0, 2))});
  run.experiment.set_name(kHostile);
  run.environment = {{kHostile, kHostile}};
  PageData data;
  FillPage(run, &data);
  data.events = {kHostile};
  data.losses = {MakeCurve(kHostile, 0)};
  const std::string page = PageHtml(data, {.style = "",
                                           .script = "",
                                           .chart_library = "x='</script>'",
                                           .licences = kHostile});
  EXPECT_THAT(page, AllOf(Not(HasSubstr("<img")), HasSubstr("&lt;img"),
                          HasSubstr("x='<\\/script>'")));
  const Json charts = SpecsOf(page)["charts"];
  EXPECT_GE(charts.size(), 5u);
  for (const auto& [id, spec] : charts.items()) {
    EXPECT_THAT(page, HasSubstr(absl::StrCat("class=\"chart\" id=\"", id, "\"")));
  }
}

TEST(PageTest, SectionsWithoutDataSayWhy) {
  RunResults run = Ended({});
  run.unfinished.push_back(Arm("ring", 2, 0, 0));
  run.unfinished.back().error = "it has not ended";
  run.unfinished.back().step_ms = {};
  PageData data;
  FillPage(run, &data);
  const std::string page = PageHtml(data, {});
  EXPECT_THAT(SpecsOf(page)["charts"], IsEmpty());
  for (const char* const sentence :
       {"there is nothing to compare", "No process has reported bytes",
        "No losses have been recorded", "accuracy has no curve", "No step has been",
        "No arm has servers", "No process has reported its bytes",
        "No bucket was exchanged", "No arm has come to its end"}) {
    EXPECT_THAT(page, HasSubstr(sentence));
  }
  EXPECT_THAT(page, Not(HasSubstr("<figure>")));
}

}  // namespace
}  // namespace psring
