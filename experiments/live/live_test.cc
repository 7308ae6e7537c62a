// What is seen of a run while it goes on.
#include <algorithm>
#include <memory>
#include <sstream>
#include <string>
#include <vector>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "common/test_clock.h"
#include "experiments/hosts/link_reading.h"
#include "experiments/live/live_display.h"
#include "experiments/live/live_state.h"
#include "experiments/live/live_view.h"
#include "experiments/live/live_watch.h"
#include "experiments/live/run_metrics.h"
#include "experiments/live/terminal.h"
#include "glog/logging.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "prometheus/metric_family.h"
#include "proto/coordinator.pb.h"
#include "proto/record.pb.h"

namespace psring {
namespace {

using testing::ElementsAre;
using testing::HasSubstr;
using testing::Not;

constexpr double kMegabit = 1e6 / 8;  // Bytes.

Terminal Plain(int columns, int rows) {
  return {.columns = columns, .rows = rows, .colours = false, .utf8 = false};
}

// Half way after 30 s.
ArmProgress Half() {
  return {.steps_done = 1500,
          .samples = 1920000,
          .loss = 0.12345,
          .trained = absl::Seconds(30)};
}

LiveState TwoWorkersAndAServer() {
  LiveState state;
  state.arm = "bounded";
  state.position = 2;
  state.positions = 3;
  state.steps = 3000;
  state.progress = Half();
  state.links = {{.name = "worker 0", .out_bytes_s = 50 * kMegabit, .in_bytes_s = 0},
                 {.name = "worker 1", .out_bytes_s = 25 * kMegabit, .in_bytes_s = 0},
                 {.name = "server 0",
                  .out_bytes_s = 0,
                  .in_bytes_s = 75 * kMegabit,
                  .out_capacity = 100 * kMegabit,
                  .in_capacity = 100 * kMegabit}};
  state.workers = {{.rank = 0, .steps = 9, .clock_lag = 3},
                   {.rank = 1, .steps = 6, .clock_lag = 0}};
  return state;
}

TEST(LiveViewTest, ShowsArmProgressRatesAndLag) {
  EXPECT_THAT(
      LiveView(TwoWorkersAndAServer(), Plain(81, 24)),
      ElementsAre(
          "[2 of 3] bounded",
          "step 1,500 of 3,000 ####################                      50 %, 0:30 left",
          "loss 0.1235, 64,000 samples/s",
          "payload                               out                               in  "
          "lag",
          "worker 0 #############        50.0 Mbit/s                       0.0 Mbit/s    "
          "3",
          "worker 1 ######               25.0 Mbit/s                       0.0 Mbit/s    "
          "0",
          "server 0                       0.0 Mbit/s ##############       75.0 Mbit/s"));
}

TEST(LiveViewTest, DrawsBarsByEighthsWithUtf8) {
  LiveState state = TwoWorkersAndAServer();
  Terminal terminal = Plain(81, 24);
  terminal.utf8 = true;
  const std::vector<std::string> lines = LiveView(state, terminal);
  EXPECT_THAT(lines[1], HasSubstr("3,000 ████████████████████ "));
  // 25 of 75 Mbit/s, the most there is: 6 1/3 of 19 cells.
  EXPECT_THAT(lines[5], HasSubstr("worker 1 ██████▍  "));
  for (const std::string& line : lines) EXPECT_LE(ColumnsOf(line), 80) << line;
}

TEST(LiveViewTest, FitsIntoEveryTerminal) {
  LiveState state = TwoWorkersAndAServer();
  state.arm =
      "an_arm_whose_name_is_far_longer_than_twenty_columns, seed 18446744073709551615";
  state.links.push_back({.name = "a host of a name of some length", .out_bytes_s = 1e12});
  for (int rank = 2; rank < 40; ++rank) {
    state.workers.push_back({.rank = rank, .steps = 1, .clock_lag = 1000});
  }
  for (const bool utf8 : {false, true}) {
    for (const bool colours : {false, true}) {
      for (int columns = 1; columns <= 200; ++columns) {
        for (const int rows : {1, 2, 3, 4, 5, 6, 7, 12, 24, 60}) {
          const Terminal terminal{columns, rows, colours, utf8};
          const std::vector<std::string> lines = LiveView(state, terminal);
          ASSERT_GE(lines.size(), 1U);
          ASSERT_LE(lines.size(), static_cast<size_t>(std::max(1, rows - 1)));
          for (const std::string& line : lines) {
            ASSERT_LE(ColumnsOf(line), std::max(1, columns - 1))
                << columns << " x " << rows << ": " << line;
          }
        }
      }
    }
  }
}

TEST(LiveViewTest, NarrowTerminalsGetTheBusierDirection) {
  EXPECT_THAT(
      LiveView(TwoWorkersAndAServer(), Plain(45, 24)),
      ElementsAre("[2 of 3] bounded", "step 1,500 of 3,000 ####     50 %, 0:30 left",
                  "loss 0.1235, 64,000 samples/s",
                  "payload                          busier  lag",
                  "worker 0 out #########      50.0 Mbit/s    3",
                  "worker 1 out ####           25.0 Mbit/s    0",
                  "server 0 in  ##########     75.0 Mbit/s"));
  EXPECT_THAT(
      LiveView(TwoWorkersAndAServer(), Plain(20, 24)),
      ElementsAre("[2 of 3] bounded", "step 1,500 of 3,000", "loss 0.1235, 64,000",
                  "worker 0 50.0 Mbit/", "worker 1 25.0 Mbit/", "server 0 75.0 Mbit/"));
}

TEST(LiveViewTest, LowTerminalsKeepTheBusiest) {
  const LiveState state = TwoWorkersAndAServer();
  const std::vector<std::string> lines = LiveView(state, Plain(81, 5));
  ASSERT_EQ(lines.size(), 4U);
  EXPECT_THAT(lines[3], HasSubstr("server 0 "));
  EXPECT_THAT(LiveView(state, Plain(81, 6)).back(), "and 2 more that carry less");
  EXPECT_THAT(LiveView(state, Plain(81, 3)),
              ElementsAre("bounded: step 1,500 of 3,000, loss 0.1235, 64,000 samples/s, "
                          "0:30 left"));
}

TEST(LiveViewTest, ColoursOnlyWhereThereAreAny) {
  Terminal terminal = Plain(81, 24);
  EXPECT_THAT(absl::StrJoin(LiveView(TwoWorkersAndAServer(), terminal), "\n"),
              Not(HasSubstr("\x1b")));
  terminal.colours = true;
  LiveState state = TwoWorkersAndAServer();
  // By capacity: busy, and full.
  state.links[2].in_bytes_s = 85 * kMegabit;
  EXPECT_THAT(LiveView(state, terminal)[6], HasSubstr("\x1b[33m##"));
  state.links[2].in_bytes_s = 99 * kMegabit;
  EXPECT_THAT(LiveView(state, terminal)[6], HasSubstr("\x1b[31m##"));
  // Without one the fullest is not known to be full. Who lags stands out.
  EXPECT_THAT(LiveView(state, terminal)[4],
              testing::AllOf(HasSubstr("\x1b[32m##"), HasSubstr("\x1b[33m   3\x1b[0m")));
}

TEST(LiveViewTest, BeforeTheFirstStepAndWithoutLossOrServers) {
  LiveState state;
  state.arm = "ring";
  EXPECT_THAT(LiveView(state, Plain(80, 24)), ElementsAre("ring", "starting"));
  state.steps = 10;
  state.progress = {.steps_done = 5, .samples = 50, .trained = absl::Seconds(7300)};
  state.workers = {{.rank = 0, .steps = 5}};
  const std::vector<std::string> lines = LiveView(state, Plain(80, 24));
  EXPECT_THAT(lines[1], HasSubstr("50 %, 2:01:40 left"));
  EXPECT_EQ(lines[2], "0 samples/s");
  EXPECT_THAT(lines[3], Not(HasSubstr("lag")));
}

Terminal terminal_now;  // A display asks a function.
Terminal TerminalNow() { return terminal_now; }

TEST(LiveDisplayTest, DrawsOverTheLastPictureAndShowsTheCursorInTheEnd) {
  terminal_now = Plain(80, 24);
  std::ostringstream out;
  {
    LiveDisplay display(&out, TerminalNow);
    LiveState state;
    state.arm = "ring";
    display.Show(state, absl::ZeroDuration());
    EXPECT_EQ(out.str(), "\x1b[?25lring\r\nstarting");
    out.str("");
    display.Show(state, absl::Milliseconds(100));  // Too early.
    EXPECT_EQ(out.str(), "");
    display.Show(state, absl::Milliseconds(200));
    EXPECT_EQ(out.str(), "\x1b[?25l\r\x1b[1A\x1b[Jring\r\nstarting");
    out.str("");
    display.Clear();
    EXPECT_EQ(out.str(), "\r\x1b[1A\x1b[J\x1b[?25h");
    out.str("");
    display.Clear();
    EXPECT_EQ(out.str(), "");
    display.Show(state, absl::Milliseconds(201));  // Nothing stands there: at once.
    out.str("");
  }
  EXPECT_EQ(out.str(), "\r\x1b[1A\x1b[J\x1b[?25h");
}

TEST(LiveDisplayTest, ANarrowerTerminalHasBrokenTheLines) {
  terminal_now = Plain(80, 24);
  std::ostringstream out;
  LiveDisplay display(&out, TerminalNow);
  LiveState state;
  state.arm = "ring_of_25_columns_or_so_";
  display.Show(state, absl::ZeroDuration());
  out.str("");
  terminal_now = Plain(10, 24);
  display.Show(state, absl::Seconds(1));
  // Three rows and one.
  EXPECT_EQ(out.str(), "\x1b[?25l\r\x1b[3A\x1b[Jring_of_2\r\nstarting");
}

TEST(LiveDisplayTest, LoggedLinesStandAboveThePicture) {
  google::InitGoogleLogging("live_test");
  FLAGS_logtostderr = true;
  terminal_now = Plain(80, 24);
  std::ostringstream out;
  LiveState state;
  state.arm = "ring";
  testing::internal::CaptureStderr();
  {
    LiveDisplay display(&out, TerminalNow);
    display.Show(state, absl::ZeroDuration());
    out.str("");
    LOG(WARNING) << "worker 1 gets no further";
    display.Show(state, absl::Seconds(1));
    EXPECT_THAT(out.str(), testing::MatchesRegex(
                               "\x1b\\[\\?25l\r\x1b\\[1A\x1b\\[JW[^\n]*worker 1 gets "
                               "no further\nring\r\nstarting"));
    display.Clear();
    out.str("");
    LOG(WARNING) << "after the picture";
  }
  EXPECT_TRUE(FLAGS_logtostderr);  // As before.
  EXPECT_THAT(out.str(), HasSubstr("after the picture\n"));
  EXPECT_EQ(testing::internal::GetCapturedStderr(), "");
}

TEST(LiveDisplayTest, WithoutATerminalAPlainLineEveryTenSeconds) {
  terminal_now = {};
  std::ostringstream out;
  LiveState state;
  state.arm = "ring";
  state.steps = 3000;
  {
    LiveDisplay display(&out, TerminalNow);
    const auto shown_at = [&](absl::Duration now) {
      out.str("");
      display.Show(state, now);
      return out.str();
    };
    const std::string line =
        "ring: step 1,500 of 3,000, loss 0.1235, 64,000 samples/s, 0:30 left\n";
    EXPECT_EQ(shown_at(absl::Seconds(1)), "");  // Nothing to tell yet.
    state.progress = Half();
    EXPECT_EQ(shown_at(absl::Seconds(2)), line);
    EXPECT_EQ(shown_at(absl::Seconds(11.999)), "");
    EXPECT_EQ(shown_at(absl::Seconds(12)), line);
    EXPECT_EQ(shown_at(absl::Seconds(21)), "");
    state.arm = "another";  // Its clock may be another one.
    EXPECT_EQ(shown_at(absl::Seconds(1)), absl::StrCat("another", line.substr(4)));
    out.str("");
  }
  EXPECT_EQ(out.str(), "");  // There is nothing to clear.
}

Terminal With(const std::vector<std::string>& environment, int columns = 100,
              int rows = 30) {
  return TerminalBy(columns, rows, [&environment](const char* name) -> std::string {
    for (const std::string& variable : environment) {
      const std::string start = absl::StrCat(name, "=");
      if (absl::StartsWith(variable, start)) return variable.substr(start.size());
    }
    return "";
  });
}

TEST(TerminalTest, TheEnvironmentSaysWhatItCanDo) {
  const Terminal terminal = With({"TERM=xterm", "LANG=de_DE.UTF-8"});
  EXPECT_EQ(terminal.columns, 100);
  EXPECT_EQ(terminal.rows, 30);
  EXPECT_TRUE(terminal.colours);
  EXPECT_TRUE(terminal.utf8);
  EXPECT_EQ(With({"TERM=dumb"}).columns, 0);
  EXPECT_EQ(With({}).columns, 0);
  EXPECT_FALSE(With({"TERM=xterm", "NO_COLOR=1"}).colours);
  EXPECT_TRUE(With({"TERM=xterm", "NO_COLOR="}).colours);
  EXPECT_FALSE(With({"TERM=xterm"}).utf8);
  EXPECT_TRUE(With({"TERM=xterm", "LC_CTYPE=C.utf8", "LANG=C"}).utf8);
  EXPECT_FALSE(With({"TERM=xterm", "LC_ALL=C", "LANG=C.UTF-8"}).utf8);
  EXPECT_EQ(With({"TERM=xterm"}, 0, 0).columns, 80);  // It does not say.
  EXPECT_EQ(With({"TERM=xterm"}, 0, 0).rows, 24);
}

StepRecord Step(int rank, int64_t step, int64_t out, int64_t in, absl::Duration start,
                absl::Duration total) {
  StepRecord record;
  record.set_rank(rank);
  record.set_step(step);
  record.set_payload_out(out);
  record.set_payload_in(in);
  record.set_start_ns(absl::ToInt64Nanoseconds(start));
  record.set_total_ns(absl::ToInt64Nanoseconds(total));
  return record;
}

RecordBatch BatchOf(const std::vector<StepRecord>& steps) {
  RecordBatch batch;
  for (const StepRecord& step : steps) *batch.add_steps() = step;
  return batch;
}

JobSpec Job(int workers, int servers) {
  JobSpec spec;
  spec.set_workers(workers);
  spec.set_servers(servers);
  spec.set_steps(10);
  spec.mutable_arm()->set_name("bounded");
  spec.mutable_experiment()->mutable_training()->set_seed(7);
  return spec;
}

TEST(LiveWatchTest, PayloadRatesOfWorkersAndOfWhatTheServersMustHaveMoved) {
  TestClock clock;
  LiveWatch watch(&clock);
  watch.Begin(Job(2, 3));
  EXPECT_EQ(watch.State().workers.size(), 2U);
  const Member member;
  // In the first 4 s, on the workers' clocks; 3 MB/s out and 1 MB/s in.
  watch.Reported(
      member,
      BatchOf({Step(0, 0, 6000000, 2000000, absl::Seconds(10), absl::Seconds(2)),
               Step(0, 1, 12000000, 4000000, absl::Seconds(12), absl::Seconds(2))}));
  watch.Reported(member,
                 BatchOf({Step(1, 0, 1000, 2000, absl::Seconds(10), absl::Seconds(1))}));
  LiveState state = watch.State();
  EXPECT_FALSE(state.frames);
  ASSERT_EQ(state.links.size(), 3U);
  EXPECT_EQ(state.links[0].name, "worker 0");
  EXPECT_DOUBLE_EQ(state.links[0].out_bytes_s, 3e6);
  EXPECT_DOUBLE_EQ(state.links[0].in_bytes_s, 1e6);
  EXPECT_DOUBLE_EQ(state.links[1].out_bytes_s, 1000);
  EXPECT_EQ(state.links[2].name, "servers 0-2");
  EXPECT_DOUBLE_EQ(state.links[2].out_bytes_s, 1e6 + 2000);
  EXPECT_DOUBLE_EQ(state.links[2].in_bytes_s, 3e6 + 1000);
  EXPECT_EQ(state.workers[0].steps, 2);
  // Only the last second counts, and a worker that falls silent slows down.
  watch.Reported(
      member, BatchOf({Step(1, 1, 9001000, 2000, absl::Seconds(11), absl::Seconds(1))}));
  EXPECT_DOUBLE_EQ(watch.State().links[1].out_bytes_s, 9e6);
  clock.Set(absl::Seconds(8));
  EXPECT_DOUBLE_EQ(watch.State().links[1].out_bytes_s, 1e6);
  watch.Begin(Job(1, 0));
  EXPECT_TRUE(watch.State().links.empty());
  watch.Begin(Job(1, 1));
  EXPECT_EQ(watch.State().links.size(), 2U);
}

TEST(LiveWatchTest, ClockLagIsThatOfTheLastContribution) {
  TestClock clock;
  LiveWatch watch(&clock);
  watch.Begin(Job(2, 1));
  EXPECT_FALSE(watch.State().workers[1].clock_lag.has_value());
  RecordBatch batch;
  for (const int lag : {4, 2}) {
    ContributionRecord& contribution = *batch.add_contributions();
    contribution.set_rank(1);
    contribution.set_clock_lag(lag);
  }
  watch.Reported(Member(), batch);
  EXPECT_EQ(watch.State().workers[1].clock_lag, 2);
  EXPECT_FALSE(watch.State().workers[0].clock_lag.has_value());
}

JobSpec JobOnHosts() {
  JobSpec spec = Job(2, 1);
  Hosts& hosts = *spec.mutable_experiment()->mutable_cluster()->mutable_hosts();
  hosts.set_link_mbit_s(80);
  spec.mutable_arm()->mutable_parameter_server()->mutable_sync();
  return spec;
}

HostsReading ReadingAt(absl::Duration time, int64_t server_in, int64_t server_out = 5) {
  HostsReading reading;
  reading.time = absl::UnixEpoch() + time;
  reading.links = {{.host = "server 0", .out = true, .bytes = server_out},
                   {.host = "server 0", .out = false, .bytes = server_in, .dropped = 3}};
  return reading;
}

TEST(LiveWatchTest, LinksOfEmulatedHostsAsTheKernelCountsThem) {
  TestClock clock;
  LiveWatch watch(&clock);
  watch.Begin(JobOnHosts());
  watch.Sampled(ReadingAt(absl::Seconds(1), 1000));
  watch.Sampled(ReadingAt(absl::Seconds(3), 5001000, 3000005));
  const LiveState state = watch.State();
  EXPECT_TRUE(state.frames);
  ASSERT_EQ(state.links.size(), 3U);
  const auto server =
      std::find_if(state.links.begin(), state.links.end(),
                   [](const LiveLink& link) { return link.name == "server 0"; });
  ASSERT_NE(server, state.links.end());
  EXPECT_DOUBLE_EQ(server->out_bytes_s, 1.5e6);
  for (const LiveLink& link : state.links) {
    EXPECT_DOUBLE_EQ(link.in_capacity, 1e7) << link.name;
    EXPECT_DOUBLE_EQ(link.out_capacity, 1e7) << link.name;
    // Those of workers have not been read.
    EXPECT_EQ(link.in_bytes_s, link.name == "server 0" ? 2.5e6 : 0) << link.name;
  }
  EXPECT_EQ(state.links.front().name, "worker 0");
}

TEST(RunMetricsTest, TellsOfTheRunThatGoesOn) {
  TestClock clock;
  LiveWatch watch(&clock);
  const RunMetrics metrics(&watch);
  EXPECT_TRUE(metrics.Collect().empty());
  watch.Begin(JobOnHosts());
  watch.Reported(Member(),
                 BatchOf({Step(1, 0, 1, 1, absl::ZeroDuration(), absl::Seconds(1))}));
  watch.Sampled(ReadingAt(absl::Seconds(1), 1000));
  std::vector<std::string> found;
  for (const prometheus::MetricFamily& family : metrics.Collect()) {
    EXPECT_NE(family.help, "") << family.name;
    for (const prometheus::ClientMetric& metric : family.metric) {
      std::string labels;
      for (const auto& label : metric.label) {
        absl::StrAppend(&labels, labels.empty() ? "" : ",", label.name, "=", label.value);
      }
      found.push_back(absl::StrCat(family.name, "{", labels, "} ",
                                   metric.counter.value + metric.gauge.value));
    }
  }
  EXPECT_THAT(
      found,
      testing::IsSupersetOf(
          {"psring_run_steps{arm=bounded,seed=7} 10",
           "psring_run_worker_steps{arm=bounded,seed=7,worker=0} 0",
           "psring_run_worker_steps{arm=bounded,seed=7,worker=1} 1",
           "psring_link_bytes_total{arm=bounded,seed=7,host=server 0,direction=in} 1000",
           "psring_link_dropped_packets_total{arm=bounded,seed=7,host=server "
           "0,direction=in} 3",
           "psring_link_backlog_bytes{arm=bounded,seed=7,host=server 0,direction=out} "
           "0"}));
  watch.End();
  EXPECT_TRUE(metrics.Collect().empty());
}

}  // namespace
}  // namespace psring
