#include "experiments/run_database.h"

#include "common/errors.h"
#include "common/status_matchers.h"
#include "experiments/run_database_test_util.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"

namespace psring {
namespace {

using testing::ElementsAre;
using testing::HasSubstr;

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
  EXPECT_THAT(Rows("SELECT * FROM buckets", 8),
              ElementsAre("1|0|0|0|1000017|1000018|1000019|1000020",
                          "1|0|0|1|1000021|1000022|1000023|1000024"));

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

TEST(RunDatabaseErrorTest, AFileThatCannotBeMadeIsNamed) {
  EXPECT_THAT(RunDatabase::Create("/proc/run.db"),
              StatusIs(absl::StatusCode::kInternal,
                       HasSubstr("cannot write /proc/run.db: unable to open")));
}

}  // namespace
}  // namespace psring
