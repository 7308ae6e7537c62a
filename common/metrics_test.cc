// Metrics as Prometheus reads them, over HTTP.
#include <sys/socket.h>
#include <unistd.h>

#include <cstddef>
#include <map>
#include <memory>
#include <set>
#include <string>
#include <vector>

#include "absl/strings/ascii.h"
#include "absl/strings/match.h"
#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_split.h"
#include "absl/strings/string_view.h"
#include "common/gradient_exchange.h"
#include "common/metrics_server.h"
#include "common/process_metrics.h"
#include "common/status_matchers.h"
#include "common/tcp_socket.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "proto/coordinator.pb.h"
#include "proto/record.pb.h"

namespace psring {
namespace {

using testing::Contains;
using testing::HasSubstr;
using testing::Not;
using testing::Pair;
using testing::StartsWith;

// What a server answers; blocks until it closes the connection.
std::string Ask(int port, const std::string& path) {
  const auto addresses = ResolveTcp(absl::StrCat("127.0.0.1:", port));
  const int fd = socket(AF_INET, SOCK_STREAM, 0);
  EXPECT_EQ(connect(fd, addresses->front().get(), addresses->front().length), 0);
  const std::string request =
      absl::StrCat("GET ", path, " HTTP/1.1\r\nHost: x\r\nConnection: close\r\n\r\n");
  EXPECT_EQ(write(fd, request.data(), request.size()),
            static_cast<ssize_t>(request.size()));
  std::string answer(1 << 20, '\0');
  size_t used = 0;
  for (ssize_t got = 1; got > 0; used += static_cast<size_t>(got)) {
    got = read(fd, answer.data() + used, answer.size() - used);
    if (got < 0) break;
  }
  close(fd);
  answer.resize(used);
  return answer;
}

// The samples of the text format, by name with labels.
std::map<std::string, double> Samples(const std::string& text) {
  std::map<std::string, double> samples;
  for (const absl::string_view raw : absl::StrSplit(text, '\n')) {
    const absl::string_view line = absl::StripAsciiWhitespace(raw);
    const size_t space = line.rfind(' ');
    double value = 0;
    if (!absl::StartsWith(line, "psring_") || space == absl::string_view::npos) continue;
    EXPECT_TRUE(absl::SimpleAtod(line.substr(space + 1), &value)) << line;
    samples[std::string(line.substr(0, space))] = value;
  }
  return samples;
}

Member Of(Role role) {
  Member member;
  member.set_role(role);
  member.set_rank(1);
  return member;
}

RecordBatch TwoSteps() {
  RecordBatch batch;
  for (const int64_t milliseconds : {2, 30}) {
    StepRecord& step = *batch.add_steps();
    step.set_samples(60);
    step.set_loss(0.5);
    step.set_total_ns(milliseconds * 1000000);
    step.set_forward_ns(1000000);
    step.set_exposed_ns(500000);
  }
  batch.add_evaluations()->set_accuracy(0.75);
  return batch;
}

RecordBatch ThreeContributions() {
  RecordBatch batch;
  for (const int64_t read : {5, 3, 5}) {
    ContributionRecord& contribution = *batch.add_contributions();
    contribution.set_rank(2);
    contribution.set_version(5);
    contribution.set_version_read(read);
    contribution.set_clock_lag(5 - read);
  }
  batch.mutable_contributions(2)->set_outcome(ContributionRecord::LATE);
  return batch;
}

TEST(MetricsTest, AWorkerSumsUpItsRecords) {
  const auto metrics = std::make_shared<ProcessMetrics>(Of(WORKER));
  JobSpec spec;
  spec.set_job("job");
  spec.mutable_arm()->set_name("ring");
  metrics->SetJob(spec);
  metrics->Add(TwoSteps());
  ASSERT_OK_AND_ASSIGN(const auto server, MetricsServer::Start("127.0.0.1:0", metrics));
  const std::string answer = Ask(server->port(), "/metrics");
  EXPECT_THAT(answer, StartsWith("HTTP/1.1 200"));
  const auto samples = Samples(answer);
  const std::string process = "process=\"worker 1\"";
  const auto expect = [&](const std::string& name, const std::string& labels,
                          double value) {
    EXPECT_THAT(samples, Contains(Pair(absl::StrCat(name, "{", process, labels, "}"),
                                       testing::DoubleNear(value, 1e-12))));
  };
  expect("psring_process_info", ",job_name=\"job\",arm=\"ring\"", 1);
  expect("psring_steps_total", "", 2);
  expect("psring_samples_total", "", 120);
  expect("psring_step_seconds_count", "", 2);
  expect("psring_step_seconds_sum", "", 0.032);
  expect("psring_step_seconds_bucket", ",le=\"0.001\"", 0);
  expect("psring_step_seconds_bucket", ",le=\"0.0025\"", 1);
  expect("psring_step_seconds_bucket", ",le=\"0.05\"", 2);
  expect("psring_step_seconds_bucket", ",le=\"+Inf\"", 2);
  expect("psring_step_part_seconds_total", ",part=\"exposed\"", 0.001);
  expect("psring_step_part_seconds_total", ",part=\"unaccounted\"", 0.029);
  expect("psring_training_loss", "", 0.5);
  expect("psring_test_accuracy_ratio", "", 0.75);
  EXPECT_THAT(answer, Not(HasSubstr("psring_payload_bytes_total")));  // Nobody knows yet.
  EXPECT_THAT(answer, Not(HasSubstr("psring_contributions_total")));
}

TEST(MetricsTest, AServerSumsUpContributions) {
  const auto metrics = std::make_shared<ProcessMetrics>(Of(SERVER));
  metrics->Add(ThreeContributions());
  ASSERT_OK_AND_ASSIGN(const auto server, MetricsServer::Start("127.0.0.1:0", metrics));
  const std::string answer = Ask(server->port(), "/metrics");
  const auto samples = Samples(answer);
  const std::string start = "{process=\"server 1\"";
  EXPECT_THAT(samples, Contains(Pair("psring_contributions_total" + start +
                                         ",worker=\"2\",outcome=\"applied\"}",
                                     2)));
  EXPECT_THAT(samples, Contains(Pair("psring_contributions_total" + start +
                                         ",worker=\"2\",outcome=\"late\"}",
                                     1)));
  EXPECT_THAT(samples,
              Contains(Pair("psring_clock_lag_steps" + start + ",worker=\"2\"}", 0)));
  EXPECT_THAT(samples, Contains(Pair("psring_gradient_staleness_versions_bucket" + start +
                                         ",le=\"0\"}",
                                     1)));
  EXPECT_THAT(samples,
              Contains(Pair("psring_gradient_staleness_versions_sum" + start + "}", 2)));
  EXPECT_THAT(answer, Not(HasSubstr("psring_steps_total")));
}

TEST(MetricsTest, TrafficIsAskedForAndStaysWhenItsOwnerIsGone) {
  const auto metrics = std::make_shared<ProcessMetrics>(Of(WORKER));
  ASSERT_OK_AND_ASSIGN(const auto server, MetricsServer::Start("127.0.0.1:0", metrics));
  const std::string sent =
      "psring_payload_bytes_total{process=\"worker 1\",kind=\"step\",direction=\"out\"}";
  {
    ExchangeTraffic traffic;
    const MeteredTraffic metered(metrics.get(), [&traffic] { return traffic; });
    traffic.payload_out = 7;
    EXPECT_THAT(Samples(Ask(server->port(), "/metrics")), Contains(Pair(sent, 7)));
    traffic.payload_out = 9;
  }
  EXPECT_THAT(Samples(Ask(server->port(), "/metrics")), Contains(Pair(sent, 9)));
  const MeteredTraffic nobody(nullptr, [] { return ExchangeTraffic(); });
}

// Each family once, with HELP and TYPE before its samples; counters end in _total.
TEST(MetricsTest, TheTextSaysWhatEachMetricIs) {
  for (const Role role : {WORKER, SERVER}) {
    const auto metrics = std::make_shared<ProcessMetrics>(Of(role));
    metrics->Add(TwoSteps());
    metrics->Add(ThreeContributions());
    metrics->SetTraffic([] { return ExchangeTraffic(); });
    ASSERT_OK_AND_ASSIGN(const auto server, MetricsServer::Start("127.0.0.1:0", metrics));
    const std::string answer = Ask(server->port(), "/metrics");
    std::map<std::string, std::string> types;
    std::set<std::string> helped;
    for (const absl::string_view line : absl::StrSplit(answer, '\n')) {
      const std::vector<std::string> words =
          absl::StrSplit(absl::StripAsciiWhitespace(line), absl::MaxSplits(' ', 3));
      if (words.size() == 4 && words[0] == "#" && words[1] == "HELP") {
        EXPECT_TRUE(helped.insert(words[2]).second) << line;
        EXPECT_NE(words[3], "");
      } else if (words.size() == 4 && words[0] == "#" && words[1] == "TYPE") {
        types[words[2]] = words[3];
        EXPECT_EQ(helped.count(words[2]), 1U) << line;
        EXPECT_EQ(words[3] == "counter", absl::EndsWith(words[2], "_total")) << line;
      } else if (absl::StartsWith(words[0], "psring_")) {
        std::string name = words[0].substr(0, words[0].find('{'));
        for (const char* const suffix : {"_bucket", "_sum", "_count"}) {
          if (types.count(name) == 0 && absl::EndsWith(name, suffix)) {
            name.resize(name.size() - std::string(suffix).size());
          }
        }
        EXPECT_EQ(types.count(name), 1U) << line;
      }
    }
    EXPECT_EQ(types["psring_process_info"], "gauge");
    EXPECT_EQ(types["psring_payload_bytes_total"], "counter");
  }
}

TEST(MetricsTest, WhereNobodyCanListenOneLineSaysWhy) {
  const auto metrics = std::make_shared<ProcessMetrics>(Of(WORKER));
  ASSERT_OK_AND_ASSIGN(const FileDescriptor taken, ListenTcp("127.0.0.1", 0));
  ASSERT_OK_AND_ASSIGN(const int port, BoundPort(taken));
  const std::string address = absl::StrCat("127.0.0.1:", port);
  const auto in_use =
      StatusIs(absl::StatusCode::kInvalidArgument,
               HasSubstr(absl::StrCat("--metrics: cannot listen at ", address,
                                      ": Address already in use")));
  EXPECT_THAT(MetricsServer::Start(address, metrics), in_use);
  EXPECT_THAT(CheckCanListen(address), in_use);
  EXPECT_THAT(CheckCanListen("nonsense"), StatusIs(absl::StatusCode::kInvalidArgument,
                                                   HasSubstr("'nonsense' is not of")));
  EXPECT_OK(CheckCanListen("127.0.0.1:0"));
}

}  // namespace
}  // namespace psring
