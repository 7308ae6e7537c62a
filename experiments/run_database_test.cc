#include "experiments/run_database.h"

#include <stdlib.h>

#include <array>
#include <filesystem>
#include <limits>
#include <memory>
#include <string>
#include <vector>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "common/errors.h"
#include "common/status_matchers.h"
#include "experiments/run_reader.h"
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

// SQLite's integers have a sign, and seeds have none.
constexpr uint64_t kSeed = std::numeric_limits<uint64_t>::max();
constexpr absl::Time kStarted = absl::FromUnixSeconds(1'000);
constexpr absl::Time kEnded = absl::FromUnixSeconds(2'000);

JobSpec MakeSpec(const std::string& name) {
  JobSpec spec;
  spec.set_job(absl::StrCat("test/", name));
  spec.mutable_arm()->set_name(name);
  spec.set_workers(2);
  spec.set_servers(1);
  spec.set_steps(3);
  spec.mutable_experiment()->mutable_training()->set_seed(kSeed);
  return spec;
}

Member MakeMember(Role role, int rank) {
  Member member;
  member.set_role(role);
  member.set_rank(rank);
  return member;
}

Hello MakeHello(Role role, int rank) {
  Hello hello;
  *hello.mutable_member() = MakeMember(role, rank);
  hello.set_host("host");
  hello.set_process_id(17);
  hello.set_incarnation(0xfedcba9876543210u);
  return hello;
}

// Every field has a value of its own.
StepRecord MakeStep(int rank, int64_t step, int buckets) {
  StepRecord record;
  int64_t value = 1'000'000 * (rank + 1) + 1'000 * step;
  record.set_rank(rank);
  record.set_step(step);
  record.set_samples(++value);
  record.set_loss(1.0 / static_cast<double>(++value));
  record.set_start_ns(++value);
  record.set_total_ns(++value);
  record.set_data_ns(++value);
  record.set_forward_ns(++value);
  record.set_backward_ns(++value);
  record.set_exposed_ns(++value);
  record.set_optimizer_ns(++value);
  record.set_recording_ns(++value);
  record.set_payload_out(++value);
  record.set_payload_in(++value);
  record.set_peer_late_ns(++value);
  if (step % 2 == 0) record.set_waited_for(static_cast<int32_t>(++value));
  record.set_version_skew(++value);
  record.set_skipped_buckets(static_cast<int32_t>(++value));
  // The highest bit, too: SQLite's integers have a sign.
  if (step % 2 == 1) record.set_parameter_digest(~static_cast<uint64_t>(++value));
  for (int bucket = 0; bucket < buckets; ++bucket) {
    BucketTimes& times = *record.add_buckets();
    times.set_ready_ns(++value);
    times.set_launched_ns(++value);
    times.set_done_ns(++value);
  }
  return record;
}

class RunDatabaseTest : public testing::Test {
 protected:
  void SetUp() override {
    std::string pattern = absl::StrCat(testing::TempDir(), "/run_database_XXXXXX");
    ASSERT_NE(mkdtemp(pattern.data()), nullptr);
    folder_ = pattern;
    ASSERT_OK_AND_ASSIGN(database_, RunDatabase::Create(Path()));
  }
  void TearDown() override { std::filesystem::remove_all(folder_); }

  std::string Path() const { return absl::StrCat(folder_, "/run.db"); }

  // Rows as texts, "a|b|c", as they are while the writer still has the file open.
  std::vector<std::string> Rows(const std::string& sql, int columns) {
    auto connection = SqliteConnection::OpenReadOnly(Path());
    EXPECT_OK(connection);
    auto statement = (*connection)->Prepare(sql);
    EXPECT_OK(statement);
    std::vector<std::string> rows;
    while (true) {
      const auto more = statement->Next();
      EXPECT_OK(more);
      if (!more.ok() || !*more) return rows;
      std::vector<std::string> cells;
      for (int column = 0; column < columns; ++column) {
        cells.push_back(statement->IsNull(column) ? "NULL" : statement->Text(column));
      }
      rows.push_back(absl::StrJoin(cells, "|"));
    }
  }

  absl::Status BeginRun(const std::string& name) {
    return database_->BeginRun(MakeSpec(name), "some mode", "name: \"x\"", kStarted);
  }

  std::string folder_;
  std::unique_ptr<RunDatabase> database_;
};

TEST_F(RunDatabaseTest, ARunAndItsProcesses) {
  ASSERT_OK(BeginRun("first"));
  ASSERT_OK(database_->AddProcess(MakeHello(SERVER, 0), kStarted));
  ASSERT_OK(database_->AddProcess(MakeHello(WORKER, 1), kStarted));
  constexpr char kRuns[] =
      "SELECT run, name, seed, job, mode, workers, servers, steps, configuration, "
      "started_unix_ns, ended_unix_ns, outcome FROM runs";
  constexpr char kProcesses[] =
      "SELECT run, role, rank, host, process_id, incarnation, joined_unix_ns, "
      "left_unix_ns, outcome FROM processes";
  EXPECT_THAT(Rows(kRuns, 12),
              ElementsAre("1|first|-1|test/first|some mode|2|1|3|name: \"x\"|"
                          "1000000000000|NULL|NULL"));
  ASSERT_OK(database_->EndProcess(MakeHello(WORKER, 1), kEnded, PeerLostError("lost")));
  ASSERT_OK(database_->EndRun(kEnded, PeerLostError("worker 1 was lost")));
  EXPECT_THAT(Rows(kProcesses, 9),
              ElementsAre("1|server|0|host|17|fedcba9876543210|1000000000000|NULL|NULL",
                          "1|worker|1|host|17|fedcba9876543210|1000000000000|"
                          "2000000000000|lost"));
  ASSERT_OK(BeginRun("second"));
  ASSERT_OK(database_->EndRun(kEnded, absl::OkStatus()));
  EXPECT_THAT(Rows("SELECT run, name, ended_unix_ns, outcome FROM runs", 4),
              ElementsAre("1|first|2000000000000|worker 1 was lost",
                          "2|second|2000000000000|ok"));
}

TEST_F(RunDatabaseTest, APlanIsOneRowForEachBucket) {
  ASSERT_OK(BeginRun("first"));
  ASSERT_OK(BeginRun("second"));
  ASSERT_OK(database_->AddPlan(
      {{.bytes = 12, .algorithm = RingMode::HALVING_DOUBLING}, {.bytes = 28}}));
  EXPECT_THAT(Rows("SELECT * FROM bucket_plan", 4),
              ElementsAre("2|0|12|halving_doubling", "2|1|28|NULL"));
}

TEST_F(RunDatabaseTest, BucketsContributionsEventsAndRecordingTime) {
  ASSERT_OK(BeginRun("first"));
  RecordBatch worker;
  *worker.add_steps() = MakeStep(/*rank=*/0, /*step=*/0, /*buckets=*/2);
  ASSERT_OK(database_->AddRecords(MakeMember(WORKER, 0), worker));
  EXPECT_THAT(
      Rows("SELECT * FROM buckets", 7),
      ElementsAre("1|0|0|0|1000017|1000018|1000019", "1|0|0|1|1000020|1000021|1000022"));

  RecordBatch server;
  for (const auto outcome : {ContributionRecord::APPLIED, ContributionRecord::LATE,
                             ContributionRecord::STALE}) {
    ContributionRecord& contribution = *server.add_contributions();
    contribution.set_slot(5);
    contribution.set_rank(6);
    contribution.set_step(7);
    contribution.set_version_read(8);
    contribution.set_version(9);
    contribution.set_outcome(outcome);
    contribution.set_clock_lag(10);
    contribution.set_time_ns(11);
  }
  ASSERT_OK(database_->AddRecords(MakeMember(SERVER, 3), server));
  EXPECT_THAT(Rows("SELECT run, server, slot, rank, step, version_read, version, "
                   "dropped, clock_lag, time_ns FROM contributions ORDER BY rowid",
                   10),
              ElementsAre("1|3|5|6|7|8|9|NULL|10|11", "1|3|5|6|7|8|9|late|10|11",
                          "1|3|5|6|7|8|9|stale|10|11"));

  ASSERT_OK(database_->AddEvent(kStarted, Severity::kWarning, "worker 1", "is slow"));
  ASSERT_OK(database_->AddEvent(kEnded, Severity::kError, "", "over"));
  EXPECT_THAT(Rows("SELECT * FROM events", 5),
              ElementsAre("1|1000000000000|warning|worker 1|is slow",
                          "1|2000000000000|error|NULL|over"));

  ASSERT_OK(database_->SetRecordingTime("worker 0", "send", absl::Nanoseconds(3)));
  ASSERT_OK(database_->SetRecordingTime("worker 0", "send", absl::Nanoseconds(5)));
  EXPECT_THAT(Rows("SELECT * FROM recording", 4), ElementsAre("1|worker 0|send|5"));
}

// Two runs, so that rows of one must not pass for the other's.
TEST_F(RunDatabaseTest, ReadArmEqualsWhatWasWritten) {
  ASSERT_OK(BeginRun("other"));
  RecordBatch other;
  *other.add_steps() = MakeStep(0, 0, 1);
  other.add_evaluations()->set_step(1);
  other.add_traffic()->set_process("worker 0");
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
      EXPECT_TRUE(MessageDifferencer::Equals(read.steps[rank][step], expected))
          << read.steps[rank][step].DebugString() << expected.DebugString();
    }
  }
  ASSERT_EQ(read.traffic.size(), 3);
  EXPECT_TRUE(MessageDifferencer::Equals(read.traffic.at("worker 0"), worker));
  EXPECT_TRUE(MessageDifferencer::Equals(read.traffic.at("worker 1"), known));
  EXPECT_TRUE(MessageDifferencer::Equals(read.traffic.at("worker 2"), over_grpc));
  ASSERT_EQ(read.evaluations.size(), 2);
  for (int i = 0; i < 2; ++i) {
    EXPECT_TRUE(MessageDifferencer::Equals(read.evaluations[i], end.evaluations(i)));
  }
  EXPECT_EQ(read.recording, absl::Microseconds(7));
}

// Slot 0 makes an update of two contributions, drops one as late, and applies one of
// the same step twice, which no key of the table hides. Slot 4 has one of its own.
TEST_F(RunDatabaseTest, ReadingsOfLinksAndTheTimeInWhichBucketsMoved) {
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

TEST_F(RunDatabaseTest, ContributionsAreSummedUp) {
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

TEST_F(RunDatabaseTest, AnArmHasARunForEachSeed) {
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

TEST_F(RunDatabaseTest, LossesThatAreNoNumbersSurvive) {
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

TEST_F(RunDatabaseTest, ReadersSeeCommittedTransactionsAlone) {
  ASSERT_OK(BeginRun("arm"));
  RecordBatch batch;
  *batch.add_steps() = MakeStep(0, 0, 0);
  ASSERT_OK(database_->Begin());
  ASSERT_OK(database_->AddRecords(MakeMember(WORKER, 0), batch));
  EXPECT_THAT(Rows("SELECT * FROM steps", 1), testing::IsEmpty());
  ASSERT_OK(database_->Commit());
  EXPECT_THAT(Rows("SELECT * FROM steps", 1), ElementsAre("1"));
}

TEST_F(RunDatabaseTest, WhatCannotBeReadSaysWhy) {
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

TEST(RunDatabaseErrorTest, AFileThatCannotBeMadeIsNamed) {
  EXPECT_THAT(RunDatabase::Create("/proc/run.db"),
              StatusIs(absl::StatusCode::kInternal,
                       HasSubstr("cannot write /proc/run.db: unable to open")));
}

}  // namespace
}  // namespace psring
