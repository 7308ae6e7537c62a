// What has been written into a run database, read back.
#include "experiments/run_reader.h"

#include <array>
#include <limits>
#include <map>
#include <string>
#include <vector>

#include "absl/strings/str_cat.h"
#include "common/status_matchers.h"
#include "experiments/run_database_test_util.h"
#include "experiments/sqlite.h"
#include "gmock/gmock.h"
#include "google/protobuf/util/message_differencer.h"
#include "gtest/gtest.h"

namespace psring {
namespace {

using google::protobuf::util::MessageDifferencer;
using testing::AllOf;
using testing::ElementsAre;
using testing::HasSubstr;

using RunReaderTest = RunDatabaseTest;

TEST_F(RunReaderTest, ReadArmEqualsWhatWasWritten) {
  ASSERT_OK(BeginRun("other"));
  RecordBatch other;
  *other.add_steps() = MakeStep(0, 0, 1);
  other.add_evaluations()->set_step(1);
  other.add_traffic()->set_process("worker 0");
  other.add_memory()->set_process("worker 0");
  ASSERT_OK(database_->AddTensorDigests({{.rank = 0}}));
  ASSERT_OK(database_->AddRecords(MakeMember(WORKER, 0), other));
  ASSERT_OK(database_->SetRecordingTime("worker 0", "send", absl::Seconds(1)));

  ASSERT_OK(BeginRun("arm"));
  // Rank 1 reports first, and each step without a digest is followed by one with.
  std::vector<std::vector<StepRecord>> steps(2);
  for (const int rank : {1, 0}) {
    RecordBatch batch;
    for (int64_t step = 0; step < 3; ++step) {
      steps[rank].push_back(MakeStep(rank, step, 2));
      *batch.add_steps() = steps[rank].back();
    }
    ASSERT_OK(database_->AddRecords(MakeMember(WORKER, rank), batch));
  }
  TrafficRecord worker;
  worker.set_process("worker 0");
  worker.set_payload_out(1);
  worker.set_payload_in(2);
  worker.set_initial_out(3);
  worker.set_initial_in(4);
  worker.set_snapshot_out(7);
  worker.set_snapshot_in(8);
  TrafficRecord known = worker;
  known.set_process("worker 1");
  known.set_local_payload_out(10);
  known.set_local_payload_in(11);
  known.set_local_other_out(12);
  known.set_local_other_in(13);
  known.set_wire_out(5);
  known.set_wire_in(int64_t{1} << 40);
  known.set_awaiting_bytes_ns(int64_t{1} << 41);
  known.set_awaiting_room_ns(0);
  known.set_retransmissions(6);
  TrafficRecord over_grpc = worker;
  over_grpc.set_process("worker 2");
  over_grpc.set_awaiting_bytes_ns(0);
  over_grpc.set_awaiting_room_ns(9);
  RecordBatch end;
  *end.add_traffic() = known;
  *end.add_traffic() = worker;
  *end.add_traffic() = over_grpc;
  for (const int64_t step : {2, 3}) {
    EvaluationRecord& evaluation = *end.add_evaluations();
    evaluation.set_step(step);
    evaluation.set_loss(0.1 * static_cast<double>(step));
    evaluation.set_accuracy(1.0 / static_cast<double>(step));
    evaluation.set_digest(~static_cast<uint64_t>(step));
  }
  end.mutable_evaluations(1)->set_time_ns(0);
  end.mutable_evaluations(1)->set_version_min(0);
  end.mutable_evaluations(1)->set_version_max(9);
  for (const char* purpose : {"gradients", "resident"}) {
    MemoryRecord& memory = *end.add_memory();
    memory.set_process("worker 0");
    memory.set_purpose(purpose);
    memory.set_bytes(purpose[0]);
  }
  const uint64_t high = ~uint64_t{5};  // SQLite's integers have a sign.
  ASSERT_OK(
      database_->AddTensorDigests({{.rank = 1, .step = 2, .tensor = 3, .digest = high}}));
  ASSERT_OK(database_->AddRecords(MakeMember(WORKER, 0), end));
  ASSERT_OK(database_->SetRecordingTime("worker 0", "send", absl::Microseconds(3)));
  ASSERT_OK(database_->SetRecordingTime("launcher", "store", absl::Microseconds(4)));

  ASSERT_OK_AND_ASSIGN(const ArmRecords read, ReadArm(Path(), "arm", kSeed));
  ASSERT_EQ(read.steps.size(), 2);
  for (int rank = 0; rank < 2; ++rank) {
    ASSERT_EQ(read.steps[rank].size(), 3);
    for (int step = 0; step < 3; ++step) {
      StepRecord expected = steps[rank][step];
      expected.clear_buckets();
      // Why it waited is known at the end of the run.
      expected.clear_peer_late_ns();
      expected.clear_waited_for();
      EXPECT_TRUE(MessageDifferencer::Equals(read.steps[rank][step], expected))
          << read.steps[rank][step].DebugString() << expected.DebugString();
    }
  }
  ASSERT_EQ(read.traffic.size(), 3);
  EXPECT_TRUE(MessageDifferencer::Equals(read.traffic.at("worker 0"), worker));
  EXPECT_TRUE(MessageDifferencer::Equals(read.traffic.at("worker 1"), known));
  EXPECT_TRUE(MessageDifferencer::Equals(read.traffic.at("worker 2"), over_grpc));
  using Purposes = std::map<std::string, int64_t>;
  EXPECT_EQ(read.memory,
            (std::map<std::string, Purposes>{
                {"worker 0", Purposes{{"gradients", 'g'}, {"resident", 'r'}}}}));
  ASSERT_EQ(read.tensor_digests.size(), 1);
  EXPECT_EQ(read.tensor_digests[0].rank, 1);
  EXPECT_EQ(read.tensor_digests[0].step, 2);
  EXPECT_EQ(read.tensor_digests[0].tensor, 3);
  EXPECT_EQ(read.tensor_digests[0].digest, high);
  ASSERT_EQ(read.evaluations.size(), 2);
  for (int i = 0; i < 2; ++i) {
    EXPECT_TRUE(MessageDifferencer::Equals(read.evaluations[i], end.evaluations(i)));
  }
  EXPECT_EQ(read.recording, absl::Microseconds(7));
}

TEST_F(RunReaderTest, CausesAndCommunicationAreThoseOfAllRanksTogether) {
  ASSERT_OK(BeginRun("arm"));
  ASSERT_OK(database_->AddPlan({{.bytes = 12}}));
  for (const int rank : {0, 1}) {
    RecordBatch batch;
    StepRecord& step = *batch.add_steps();
    step.set_rank(rank);
    step.set_backward_ns(1000 + 300 * rank);
    step.set_exposed_ns(500 - 300 * rank);
    BucketTimes& times = *step.add_buckets();
    times.set_ready_ns(900 + 300 * rank);
    times.set_launched_ns(1000 + 300 * rank);
    times.set_done_ns(1500);
    times.set_working_ns(100);
    ClockRecord& clock = *batch.add_clocks();
    clock.set_process(absl::StrCat("worker ", rank));
    clock.set_offset_ns(-100 * rank);
    clock.set_error_ns(7);
    ASSERT_OK(database_->AddRecords(MakeMember(WORKER, rank), batch));
  }
  ASSERT_OK(database_->EndRun(kEnded, absl::OkStatus()));
  ASSERT_OK_AND_ASSIGN(const ArmRecords read, ReadArm(Path(), "arm", kSeed));
  const StepRecord& first = read.steps[0][0];
  // Worker 1 has launched at 1300 - 100.
  EXPECT_EQ(first.not_ready_ns(), 0);
  EXPECT_EQ(first.peer_late_ns(), 200);
  EXPECT_EQ(first.on_wire_ns(), 200);
  EXPECT_EQ(first.working_ns(), 100);
  EXPECT_EQ(first.waited_for(), 1);
  EXPECT_FALSE(read.steps[1][0].has_waited_for());
  EXPECT_EQ(read.communication.buckets.size(), 1);
  EXPECT_DOUBLE_EQ(read.communication.first_launch, 1);
  ASSERT_TRUE(read.communication.arrival_skew.has_value());
  EXPECT_EQ(read.communication.arrival_skew->last, 1);
  EXPECT_DOUBLE_EQ(read.communication.arrival_skew->max_ms, 200e-6);
  EXPECT_DOUBLE_EQ(read.communication.arrival_skew->error_ms, 14e-6);
}

TEST_F(RunReaderTest, ProbedLinksAreOfEveryRun) {
  const std::vector<ProbedLink> probed = {
      {.link = {.kind = {.send_bit_s = 1,
                         .receive_bit_s = 2,
                         .queue_bytes = 3,
                         .burst_bytes = 4,
                         .congestion_control = "reno"},
                .host = "worker 0",
                .alike = 5},
       .latency = absl::Nanoseconds(6),
       .out_bytes_s = 7.5,
       .in_bytes_s = 8.5,
       .idle = 0.25},
      {.link = {.kind = {.send_bit_s = 1,
                         .receive_bit_s = 2,
                         .queue_bytes = 3,
                         .burst_bytes = 4,
                         .congestion_control = "reno",
                         .between_racks = true},
                .host = "rack 0"}}};
  ASSERT_OK(database_->AddProbedLinks(probed));
  for (const char* const name : {"ring", "servers"}) {
    ASSERT_OK(database_->BeginRun(MakeSpec(name), "", "", kStarted));
    ASSERT_OK_AND_ASSIGN(const ArmRecords records, ReadArm(Path(), name, kSeed));
    ASSERT_EQ(records.probed_links.size(), 2);
    for (size_t i = 0; i < probed.size(); ++i) {
      const ProbedLink& read = records.probed_links[i];
      EXPECT_TRUE(read.link.kind == probed[i].link.kind);
      EXPECT_EQ(read.link.host, probed[i].link.host);
      EXPECT_EQ(read.link.alike, probed[i].link.alike);
      EXPECT_EQ(read.latency, probed[i].latency);
      EXPECT_EQ(read.out_bytes_s, probed[i].out_bytes_s);
      EXPECT_EQ(read.in_bytes_s, probed[i].in_bytes_s);
      EXPECT_EQ(read.idle, probed[i].idle);
    }
  }
}

// Slot 0 makes an update of two contributions, drops one as late, and applies one of
// the same step twice, which no key of the table hides. Slot 4 has one of its own.
TEST_F(RunReaderTest, ReadingsOfLinksAndTheTimeInWhichBucketsMoved) {
  ASSERT_OK(database_->BeginRun(MakeSpec("ring"), "", "", kStarted));
  std::vector<HostsReading> readings(2);
  int64_t value = 0;
  for (HostsReading& reading : readings) {
    reading.time = kStarted + absl::Nanoseconds(++value);
    reading.idle = absl::Nanoseconds(++value);
    reading.processors = absl::Nanoseconds(++value);
    for (const bool out : {false, true}) {
      LinkReading& link = reading.links.emplace_back();
      link.host = "worker 1";
      link.out = out;
      link.bytes = ++value;
      link.packets = ++value;
      link.dropped = ++value;
      link.backlog_bytes = ++value;
      link.interface_bytes = ++value;
      link.interface_packets = ++value;
      if (out) link.resent = ++value;
    }
    ASSERT_OK(database_->AddHostsReading(reading));
  }
  // 10 to 20, 15 to 30 and 40 to 45 ns.
  RecordBatch batch;
  for (const auto& [rank, step, launched, done] :
       {std::array{0, 0, 10, 20}, std::array{1, 0, 15, 30}, std::array{0, 1, 40, 45}}) {
    StepRecord& record = *batch.add_steps();
    record.set_rank(rank);
    record.set_step(step);
    record.add_buckets()->set_launched_ns(launched);
    record.mutable_buckets(0)->set_done_ns(done);
  }
  ASSERT_OK(database_->AddRecords(MakeMember(WORKER, 0), batch));

  ASSERT_OK_AND_ASSIGN(const ArmRecords records, ReadArm(Path(), "ring", kSeed));
  EXPECT_EQ(records.moving, absl::Nanoseconds(25));
  ASSERT_EQ(records.readings.size(), 2);
  for (size_t i = 0; i < readings.size(); ++i) {
    EXPECT_EQ(records.readings[i].time, readings[i].time);
    EXPECT_EQ(records.readings[i].idle, readings[i].idle);
    EXPECT_EQ(records.readings[i].processors, readings[i].processors);
    ASSERT_EQ(records.readings[i].links.size(), 2);
    for (size_t j = 0; j < 2; ++j) {
      const LinkReading& read = records.readings[i].links[j];
      const LinkReading& written = readings[i].links[j];
      EXPECT_EQ(read.host, written.host);
      EXPECT_EQ(read.out, written.out);
      EXPECT_EQ(read.bytes, written.bytes);
      EXPECT_EQ(read.packets, written.packets);
      EXPECT_EQ(read.dropped, written.dropped);
      EXPECT_EQ(read.backlog_bytes, written.backlog_bytes);
      EXPECT_EQ(read.interface_bytes, written.interface_bytes);
      EXPECT_EQ(read.interface_packets, written.interface_packets);
      EXPECT_EQ(read.resent, written.resent);
    }
  }
}

TEST_F(RunReaderTest, ContributionsAreSummedUp) {
  const auto add = [](int slot, int rank, int64_t step, int64_t read, int64_t version,
                      int64_t lag, RecordBatch* batch) -> ContributionRecord& {
    ContributionRecord& contribution = *batch->add_contributions();
    contribution.set_slot(slot);
    contribution.set_rank(rank);
    contribution.set_step(step);
    contribution.set_version_read(read);
    contribution.set_version(version);
    contribution.set_clock_lag(lag);
    return contribution;
  };
  RecordBatch batch;
  ASSERT_OK(BeginRun("other"));
  add(9, 9, 9, 0, 9, 9, &batch);
  ASSERT_OK(database_->AddRecords(MakeMember(SERVER, 0), batch));

  ASSERT_OK(BeginRun("arm"));
  batch.Clear();
  add(0, 0, 0, 0, 0, 0, &batch);
  add(0, 1, 0, 0, 0, 0, &batch);
  add(0, 1, 1, 0, 1, 2, &batch);
  add(0, 1, 1, 0, 2, 1, &batch);
  add(0, 0, 1, 1, 3, 0, &batch).set_outcome(ContributionRecord::LATE);
  add(4, 0, 0, 0, 0, 7, &batch).set_outcome(ContributionRecord::STALE);
  ASSERT_OK(database_->AddRecords(MakeMember(SERVER, 0), batch));
  ASSERT_OK_AND_ASSIGN(const ArmRecords read, ReadArm(Path(), "arm", kSeed));

  const auto totals = [&](int slot, int rank) {
    const ContributionTotals& t = read.slots.at(slot).workers.at(rank);
    return std::vector<int64_t>{t.made, t.steps, t.late, t.stale, t.clock_lag_max};
  };
  ASSERT_EQ(read.slots.size(), 2);
  EXPECT_THAT(totals(0, 0), ElementsAre(2, 2, 1, 0, 0));
  EXPECT_THAT(totals(0, 1), ElementsAre(3, 2, 0, 0, 2));
  EXPECT_THAT(totals(4, 0), ElementsAre(1, 1, 0, 1, 7));
  const auto updates = [&](int64_t contributions) {
    const UpdateTotals& u = read.slots.at(0).updates.at(contributions);
    return std::vector<int64_t>{u.updates, u.first_version, u.last_version};
  };
  EXPECT_THAT(updates(2), ElementsAre(1, 0, 0));
  EXPECT_THAT(updates(1), ElementsAre(2, 1, 2));
  EXPECT_TRUE(read.slots.at(4).updates.empty());
  const auto staleness = [&](int rank, int64_t value) {
    const StalenessTotals& s = read.staleness.at(rank).at(value);
    return std::vector<int64_t>{s.count, s.of_version_0};
  };
  ASSERT_EQ(read.staleness.size(), 2);
  EXPECT_THAT(staleness(0, 0), ElementsAre(1, 1));
  EXPECT_THAT(staleness(1, 0), ElementsAre(1, 1));
  EXPECT_THAT(staleness(1, 1), ElementsAre(1, 1));
  EXPECT_THAT(staleness(1, 2), ElementsAre(1, 1));
}

TEST_F(RunReaderTest, AnArmHasARunForEachSeed) {
  for (const uint64_t seed : {3, 4}) {
    JobSpec spec = MakeSpec("arm");
    spec.mutable_experiment()->mutable_training()->set_seed(seed);
    ASSERT_OK(database_->BeginRun(spec, "some mode", "", kStarted));
    RecordBatch batch;
    *batch.add_steps() = MakeStep(/*rank=*/0, /*step=*/0, /*buckets=*/0);
    batch.mutable_steps(0)->set_samples(100 * seed);
    ASSERT_OK(database_->AddRecords(MakeMember(WORKER, 0), batch));
  }
  ASSERT_OK_AND_ASSIGN(const ArmRecords read, ReadArm(Path(), "arm", 4));
  ASSERT_EQ(read.steps[0].size(), 1);
  EXPECT_EQ(read.steps[0][0].samples(), 400);
}

TEST_F(RunReaderTest, LossesThatAreNoNumbersSurvive) {
  ASSERT_OK(BeginRun("arm"));
  RecordBatch batch;
  *batch.add_steps() = MakeStep(0, 0, 0);
  *batch.add_steps() = MakeStep(0, 1, 0);
  batch.mutable_steps(0)->set_loss(std::numeric_limits<double>::quiet_NaN());
  batch.mutable_steps(1)->set_loss(std::numeric_limits<double>::infinity());
  batch.add_evaluations()->set_loss(std::numeric_limits<double>::quiet_NaN());
  ASSERT_OK(database_->AddRecords(MakeMember(WORKER, 0), batch));
  ASSERT_OK_AND_ASSIGN(const ArmRecords read, ReadArm(Path(), "arm", kSeed));
  EXPECT_THAT(read.steps[0][0].loss(), testing::IsNan());
  EXPECT_EQ(read.steps[0][1].loss(), std::numeric_limits<double>::infinity());
  EXPECT_THAT(read.evaluations[0].loss(), testing::IsNan());
}

TEST_F(RunReaderTest, WhatCannotBeReadSaysWhy) {
  ASSERT_OK(BeginRun("arm"));
  EXPECT_THAT(ReadArm(Path(), "nobody", kSeed),
              StatusIs(absl::StatusCode::kNotFound, HasSubstr("nobody")));
  EXPECT_THAT(ReadArm(Path(), "arm", 5),
              StatusIs(absl::StatusCode::kNotFound, HasSubstr("no run arm with seed 5")));
  const std::string missing = absl::StrCat(folder_, "/missing.db");
  EXPECT_THAT(ReadArm(missing, "arm", kSeed),
              StatusIs(absl::StatusCode::kInternal,
                       AllOf(HasSubstr(absl::StrCat("cannot read ", missing)),
                             HasSubstr("No such file"))));
  ASSERT_OK_AND_ASSIGN(const auto connection, SqliteConnection::Open(Path()));
  ASSERT_OK(connection->Execute("PRAGMA user_version = 99"));
  EXPECT_THAT(ReadArm(Path(), "arm", kSeed),
              StatusIs(absl::StatusCode::kInternal, HasSubstr("version 99")));
}

}  // namespace
}  // namespace psring
