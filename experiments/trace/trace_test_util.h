// Run databases with known times, and what a trace of them is read back as.
#ifndef PSRING_EXPERIMENTS_TRACE_TRACE_TEST_UTIL_H_
#define PSRING_EXPERIMENTS_TRACE_TRACE_TEST_UTIL_H_

#include <algorithm>
#include <cstdint>
#include <filesystem>
#include <fstream>
#include <map>
#include <set>
#include <sstream>
#include <string>
#include <tuple>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_replace.h"
#include "common/status_matchers.h"
#include "experiments/planned_buckets.h"
#include "experiments/run_database_test_util.h"
#include "experiments/trace/trace.h"
#include "google/protobuf/text_format.h"
#include "gtest/gtest.h"
#include "nlohmann/json.hpp"
#include "proto/coordinator.pb.h"
#include "proto/experiment.pb.h"
#include "proto/record.pb.h"

namespace psring {

// Bucket 0 is the 2 elements of tensor2 and tensor1, bucket 1 the 6 of tensor0.
inline constexpr char kScriptedConfiguration[] = R"(
name: "scripted"
model { tensors { elements: 6 elements: 1 elements: 1 repeat: 1 } }
training {
  steps: 1000 global_batch: 6 micro_batches: 1
  optimizer { sgd { learning_rate: 0.5 } }
}
compute { emulated {} }
cluster { workers: WORKERS servers: 1 }
buckets { cap_bytes: 24 first_cap_bytes: 8 overlap: true }
ORDER
arms { name: "NAME" MODE wire { fp32 {} } }
)";

// Processes' clocks are ahead of the coordinator's, by hours.
inline int64_t OffsetOf(int rank) { return int64_t{-7'000'000'000'000} * (rank + 1); }
inline constexpr int64_t kServerOffset = -77'000'000'000'123;

// What is read of a complete event; in microseconds.
struct TracedEvent {
  std::string name;
  double begin = 0;
  double end = 0;
  nlohmann::json args;
};

class TraceTest : public RunDatabaseTest {
 protected:
  void BeginArm(const std::string& name, int workers, const std::string& mode,
                const std::string& order = "") {
    const std::string text =
        absl::StrReplaceAll(kScriptedConfiguration, {{"WORKERS", absl::StrCat(workers)},
                                                     {"NAME", name},
                                                     {"ORDER", order},
                                                     {"MODE", mode}});
    JobSpec spec = MakeSpec(name);
    ASSERT_TRUE(
        google::protobuf::TextFormat::ParseFromString(text, spec.mutable_experiment()));
    spec.mutable_experiment()->mutable_training()->set_seed(kSeed);
    *spec.mutable_arm() = spec.experiment().arms(0);
    const bool servers = spec.arm().has_parameter_server();
    spec.set_workers(workers);
    spec.set_servers(servers ? 1 : 0);
    ASSERT_OK(database_->BeginRun(spec, "some mode", text, kStarted));
    std::vector<PlannedBucket> plan = {{.bytes = 8}, {.bytes = 24}};
    if (!servers) plan[0].algorithm = plan[1].algorithm = RingMode::RING;
    ASSERT_OK(database_->AddPlan(plan));
    RecordBatch batch;
    for (int rank = 0; rank < workers; ++rank) {
      AddClock(absl::StrCat("worker ", rank), OffsetOf(rank), &batch);
    }
    if (servers) AddClock("server 0", kServerOffset, &batch);
    ASSERT_OK(database_->AddRecords(MakeMember(WORKER, 0), batch));
  }
  static void AddClock(const std::string& process, int64_t offset_ns,
                       RecordBatch* batch) {
    ClockRecord& clock = *batch->add_clocks();
    clock.set_process(process);
    clock.set_offset_ns(offset_ns);
    clock.set_error_ns(1'500);
    clock.set_time_ns(0);
  }

  // A step of 100 us from `start_us` on the coordinator's clock, which computes for 60.
  // Bucket 0 is ready after 40, launched after 45 and done after 70; bucket 1 is ready
  // and launched after 60 and done after 90: they overlap. Rank r's moments are all r us
  // late.
  void AddStep(int rank, int64_t step, int64_t start_us, int64_t optimizer_us = 0) {
    const int64_t start_ns = (start_us + rank) * 1000 - OffsetOf(rank);
    RecordBatch batch;
    StepRecord& record = *batch.add_steps();
    record.set_rank(rank);
    record.set_step(step);
    record.set_start_ns(start_ns);
    record.set_total_ns(100'000);
    record.set_recording_ns(1'000);
    record.set_data_ns(4'000);
    record.set_forward_ns(15'000);
    record.set_backward_ns(40'000);
    record.set_exposed_ns(30'000 - 1'000 * optimizer_us);
    record.set_optimizer_ns(1'000 * optimizer_us);
    for (const auto& [ready, launched, done] :
         {std::tuple(40, 45, 70), std::tuple(60, 60, 90)}) {
      BucketTimes& times = *record.add_buckets();
      times.set_ready_ns(start_ns + 1'000 * ready);
      times.set_launched_ns(start_ns + 1'000 * launched);
      times.set_done_ns(start_ns + 1'000 * done);
      times.set_working_ns(2'500);
    }
    ASSERT_OK(database_->AddRecords(MakeMember(WORKER, rank), batch));
  }
  // One of server 0, on the coordinator's clock.
  void AddContribution(int slot, int rank, int64_t step, double time_us,
                       ContributionRecord::Outcome outcome = ContributionRecord::APPLIED,
                       int64_t staleness = 0) {
    RecordBatch batch;
    ContributionRecord& record = *batch.add_contributions();
    record.set_slot(slot);
    record.set_rank(rank);
    record.set_step(step);
    record.set_version_read(step);
    record.set_version(step + staleness);
    record.set_outcome(outcome);
    record.set_time_ns(static_cast<int64_t>(1000 * time_us) - kServerOffset);
    ASSERT_OK(database_->AddRecords(MakeMember(SERVER, 0), batch));
  }
  // Steps of 100 us without a pause, from 1000 us on.
  void AddServersArm(int steps) {
    BeginArm("servers", 2, "parameter_server { sync {} }");
    for (int step = 0; step < steps; ++step) {
      const int start_us = 1000 + 100 * step;
      for (const int rank : {1, 0}) {
        AddStep(rank, step, start_us);
        AddContribution(0, rank, step, start_us + 65 + 0.25 * rank);
        AddContribution(1, rank, step, start_us + 80 + 0.25 * rank);
      }
    }
  }

  TraceOptions Options() const {
    TraceOptions options;
    options.run = folder_;
    return options;
  }
  // The file that the options ask for, after the checks that hold for all.
  nlohmann::json Trace(const TraceOptions& options) {
    log_.str("");
    EXPECT_OK(WriteTrace(options, &log_));
    const std::string path =
        options.out.empty() ? absl::StrCat(options.run, "/trace.json") : options.out;
    std::ifstream file(path);
    nlohmann::json trace =
        nlohmann::json::parse(file, nullptr, /*allow_exceptions=*/false);
    EXPECT_FALSE(trace.is_discarded());
    EXPECT_FALSE(std::filesystem::exists(path + ".new"));
    if (!trace.is_discarded()) Check(trace);
    return trace;
  }

  // Events of a lane are within or apart from each other; each arrow has one beginning
  // and one end and does not go back in time, and its points are on events.
  void Check(const nlohmann::json& trace) {
    names_.clear();
    lanes_.clear();
    std::map<std::pair<int, int>, std::string> lane_names;
    std::map<std::pair<int, int>, std::vector<TracedEvent>> lanes;
    std::map<int64_t, std::vector<nlohmann::json>> arrows;
    for (const nlohmann::json& event : trace["traceEvents"]) {
      const std::pair<int, int> lane = {event["pid"], event["tid"]};
      const std::string kind = event["ph"];
      if (kind == "M" && event["name"] == "process_name") {
        names_[lane.first] = event["args"]["name"];
      } else if (kind == "M" && event["name"] == "thread_name") {
        lane_names[lane] = event["args"]["name"];
      } else if (kind == "X") {
        const double begin = event["ts"];
        const double length = event["dur"];
        EXPECT_GE(length, 0) << event;
        lanes[lane].push_back({.name = event["name"],
                               .begin = begin,
                               .end = begin + length,
                               .args = event.value("args", nlohmann::json())});
      } else if (kind != "M") {
        arrows[event["id"]].push_back(event);
      }
    }
    for (auto& [lane, events] : lanes) {
      std::stable_sort(events.begin(), events.end(),
                       [](const TracedEvent& a, const TracedEvent& b) {
                         return std::pair(a.begin, -a.end) < std::pair(b.begin, -b.end);
                       });
      std::vector<TracedEvent> around;
      for (const TracedEvent& event : events) {
        while (!around.empty() && around.back().end <= event.begin) around.pop_back();
        if (!around.empty()) {
          EXPECT_LE(event.end, around.back().end + 1e-9) << event.name;
        }
        around.push_back(event);
      }
      ASSERT_TRUE(lane_names.contains(lane));
      ASSERT_TRUE(names_.contains(lane.first));
      lanes_[absl::StrCat(names_[lane.first], " / ", lane_names[lane])] = events;
    }
    arrows_ = arrows;
    for (const auto& [id, points] : arrows) {
      EXPECT_GE(points.size(), 2);
      for (size_t i = 0; i < points.size(); ++i) {
        const double time = points[i]["ts"];
        const bool last = i + 1 == points.size();
        EXPECT_EQ(points[i]["ph"], i == 0 ? "s" : last ? "f" : "t");
        EXPECT_LE(points[i == 0 ? 0 : i - 1]["ts"].get<double>(), time);
        const auto& events = lanes[{points[i]["pid"], points[i]["tid"]}];
        EXPECT_TRUE(std::any_of(events.begin(), events.end(),
                                [&](const TracedEvent& event) {
                                  return event.begin <= time + 1e-9 &&
                                         time <= event.end + 1e-9;
                                }))
            << points[i];
      }
    }
  }

  // "name begin end" of a lane's events that begin before `until`.
  std::vector<std::string> Lane(const std::string& name, double until = 100) {
    std::vector<std::string> texts;
    for (const TracedEvent& event : lanes_[name]) {
      if (event.begin >= until) break;
      texts.push_back(absl::StrCat(event.name, " ", event.begin, " ", event.end));
    }
    return texts;
  }
  // "process time, process time, ..." of each arrow.
  std::vector<std::string> Arrows() {
    std::vector<std::string> texts;
    for (const auto& [id, points] : arrows_) {
      std::string& text = texts.emplace_back();
      for (const nlohmann::json& point : points) {
        absl::StrAppend(&text, text.empty() ? "" : ", ", names_[point["pid"]], " ",
                        point["ts"].get<double>());
      }
    }
    return texts;
  }

  // The first and the last step of a worker.
  std::pair<int64_t, int64_t> Shown(const std::string& process) {
    std::set<int64_t> steps;
    for (const TracedEvent& event : lanes_[process + " / compute"]) {
      if (event.args.contains("step")) steps.insert(event.args["step"].get<int64_t>());
    }
    return {*steps.begin(), *steps.rbegin()};
  }

  std::map<int, std::string> names_;  // Of processes.
  std::map<std::string, std::vector<TracedEvent>> lanes_;
  std::map<int64_t, std::vector<nlohmann::json>> arrows_;
  std::ostringstream log_;
};

}  // namespace psring

#endif  // PSRING_EXPERIMENTS_TRACE_TRACE_TEST_UTIL_H_
