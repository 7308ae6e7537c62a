#include "experiments/arm_recorder.h"

#include <stdlib.h>

#include <filesystem>
#include <limits>
#include <memory>
#include <string>
#include <vector>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "common/errors.h"
#include "common/status_matchers.h"
#include "experiments/arm_result.h"
#include "experiments/run_database.h"
#include "experiments/run_reader.h"
#include "experiments/sqlite.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"

namespace psring {
namespace {

using testing::ElementsAre;
using testing::HasSubstr;

JobSpec MakeSpec() {
  JobSpec spec;
  spec.set_job("test/arm");
  spec.set_workers(2);
  spec.set_steps(2);
  spec.mutable_arm()->set_name("arm");
  spec.mutable_arm()->mutable_ring();
  Experiment& experiment = *spec.mutable_experiment();
  experiment.set_name("test");
  experiment.mutable_training()->mutable_optimizer()->mutable_sgd();
  experiment.mutable_buckets()->set_cap_bytes(4);
  experiment.mutable_buckets()->set_first_cap_bytes(4);
  *experiment.add_arms() = spec.arm();
  experiment.add_arms()->set_name("another");
  for (const char* const name : {"weight", "bias"}) {
    TensorSpec& tensor = *spec.add_tensors();
    tensor.set_name(name);
    tensor.add_shape(1);
  }
  SlowWorker& slow = *experiment.mutable_inject()->add_slow_worker();
  slow.set_rank(1);
  slow.set_factor(3);
  return spec;
}

Hello MakeHello(int rank) {
  Hello hello;
  hello.mutable_member()->set_role(WORKER);
  hello.mutable_member()->set_rank(rank);
  hello.set_host("host");
  hello.set_process_id(100 + rank);
  return hello;
}

// One step of 10 ms, 1 ms of it spent on records.
RecordBatch OneStep(int rank, int64_t step) {
  RecordBatch batch;
  StepRecord& record = *batch.add_steps();
  record.set_rank(rank);
  record.set_step(step);
  record.set_samples(8);
  record.set_loss(rank + 1);
  record.set_start_ns(10'000'000 * step);
  record.set_total_ns(10'000'000);
  record.set_recording_ns(1'000'000);
  batch.set_sender_processor_ns(2'000'000 * (step + 1));
  return batch;
}

class ArmRecorderTest : public testing::Test {
 protected:
  void SetUp() override {
    std::string pattern = absl::StrCat(testing::TempDir(), "/arm_recorder_XXXXXX");
    ASSERT_NE(mkdtemp(pattern.data()), nullptr);
    folder_ = pattern;
    ASSERT_OK_AND_ASSIGN(auto database, RunDatabase::Create(Path()));
    writer_ = std::make_unique<DatabaseWriter>(std::move(database));
    recorder_ = std::make_unique<ArmRecorder>(MakeSpec(), writer_.get());
  }
  void TearDown() override { std::filesystem::remove_all(folder_); }

  std::string Path() const { return absl::StrCat(folder_, "/run.db"); }

  void Report(int rank, int64_t step) {
    recorder_->Reported(MakeHello(rank).member(), OneStep(rank, step),
                        absl::Milliseconds(step + 1));
  }

  // The first column of each row.
  std::vector<std::string> Column(const std::string& sql) {
    auto connection = SqliteConnection::OpenReadOnly(Path());
    EXPECT_OK(connection);
    auto statement = (*connection)->Prepare(sql);
    EXPECT_OK(statement);
    std::vector<std::string> cells;
    while (true) {
      const auto more = statement->Next();
      EXPECT_OK(more);
      if (!more.ok() || !*more) return cells;
      cells.push_back(statement->Text(0));
    }
  }

  std::string folder_;
  std::unique_ptr<DatabaseWriter> writer_;
  std::unique_ptr<ArmRecorder> recorder_;
};

TEST_F(ArmRecorderTest, EventsTellTheStoryInOrderAndNameTheLost) {
  recorder_->Joined(MakeHello(0));
  recorder_->Joined(MakeHello(1));
  Report(/*rank=*/1, /*step=*/0);
  recorder_->Warned("worker 1 gets no further");
  recorder_->Note(Severity::kError, "worker 1", "process 101 was killed");
  recorder_->Ended(MakeHello(1), PeerLostError("worker 1 was lost"));
  recorder_->Aborted(PeerLostError("worker 1 was lost"));
  recorder_->Ended(MakeHello(0), absl::OkStatus());
  ASSERT_OK(recorder_->End(PeerLostError("worker 1 was lost")));
  EXPECT_THAT(
      Column("SELECT severity || ' / ' || ifnull(process, '-') || ' / ' || text "
             "FROM events ORDER BY rowid"),
      ElementsAre("warning / worker 1 / injected: computes 3 times as long",
                  "info / worker 0 / joined: process 100 on host",
                  "info / worker 1 / joined: process 101 on host",
                  "warning / - / worker 1 gets no further",
                  "error / worker 1 / process 101 was killed",
                  "error / worker 1 / ended with an error: worker 1 was lost; steps "
                  "recorded of it: 1",
                  "error / - / the run was aborted: worker 1 was lost",
                  "info / worker 0 / left"));
  EXPECT_THAT(Column("SELECT outcome FROM processes ORDER BY rank"),
              ElementsAre("ok", "worker 1 was lost"));
  EXPECT_THAT(Column("SELECT outcome FROM runs"), ElementsAre("worker 1 was lost"));
}

TEST_F(ArmRecorderTest, TheConfigurationIsTheArmsAlone) {
  ASSERT_OK(recorder_->End(absl::OkStatus()));
  const auto configurations = Column("SELECT configuration FROM runs");
  ASSERT_EQ(configurations.size(), 1);
  EXPECT_THAT(configurations[0], HasSubstr("name: \"arm\""));
  EXPECT_FALSE(absl::StrContains(configurations[0], "another"));
}

TEST_F(ArmRecorderTest, ThePlanIsThereFromTheStart) {
  ASSERT_OK(writer_->Flush());
  EXPECT_THAT(Column("SELECT bucket || ': ' || bytes || ', ' || algorithm FROM "
                     "bucket_plan WHERE run = 1"),
              ElementsAre("0: 4, ring", "1: 4, ring"));
}

TEST_F(ArmRecorderTest, ProgressIsThatOfAllRanksTogether) {
  EXPECT_EQ(recorder_->Progress().steps_done, 0);
  Report(/*rank=*/0, /*step=*/0);
  Report(/*rank=*/0, /*step=*/1);
  EXPECT_EQ(recorder_->Progress().steps_done, 0);
  Report(/*rank=*/1, /*step=*/0);
  const ArmProgress progress = recorder_->Progress();
  EXPECT_EQ(progress.steps_done, 1);
  EXPECT_EQ(progress.samples, 24);
  EXPECT_EQ(progress.loss, 1.5);
  EXPECT_EQ(progress.trained, absl::Milliseconds(20));
  Report(/*rank=*/0, /*step=*/2);
  EXPECT_EQ(recorder_->Progress().steps_done, 2);
}

TEST_F(ArmRecorderTest, AStepWithoutSamplesLeavesTheLossThatThereWas) {
  Report(/*rank=*/0, /*step=*/0);
  Report(/*rank=*/1, /*step=*/0);
  RecordBatch batch = OneStep(/*rank=*/1, /*step=*/1);
  batch.mutable_steps(0)->set_samples(0);
  batch.mutable_steps(0)->set_loss(std::numeric_limits<double>::quiet_NaN());
  recorder_->Reported(MakeHello(1).member(), batch, absl::ZeroDuration());
  EXPECT_EQ(recorder_->Progress().loss, 1.5);
  EXPECT_EQ(recorder_->Progress().samples, 16);
}

TEST_F(ArmRecorderTest, TheCostIsAShareOfAllSteps) {
  for (const int64_t step : {0, 1}) {
    for (const int rank : {0, 1}) Report(rank, step);
  }
  ASSERT_OK(recorder_->End(absl::OkStatus()));
  ASSERT_OK_AND_ASSIGN(const ArmRecords records, ReadArm(Path(), "arm", 0));
  // Of each rank the last that it told: 4 ms to send, 2 ms to take in.
  const absl::Duration stored = records.recording - absl::Milliseconds(12);
  EXPECT_GT(stored, absl::ZeroDuration());
  EXPECT_LE(stored, writer_->processor_time());
  const ArmResult result = Summarize(MakeSpec(), records, absl::OkStatus());
  EXPECT_DOUBLE_EQ(result.recording.training_thread_share, 0.1);
  EXPECT_DOUBLE_EQ(result.recording.processor_share,
                   absl::ToDoubleSeconds(records.recording) / 0.040);
}

TEST_F(ArmRecorderTest, AnotherRunsCostIsNotCounted) {
  Report(0, 0);
  ASSERT_OK(recorder_->End(absl::OkStatus()));
  ASSERT_OK_AND_ASSIGN(const ArmRecords first, ReadArm(Path(), "arm", 0));
  JobSpec spec = MakeSpec();
  spec.mutable_arm()->set_name("second");
  const absl::Duration before = writer_->processor_time();
  ArmRecorder second(spec, writer_.get());
  ASSERT_OK(second.End(absl::OkStatus()));
  ASSERT_OK_AND_ASSIGN(const ArmRecords records, ReadArm(Path(), "second", 0));
  EXPECT_GT(records.recording, absl::ZeroDuration());
  EXPECT_LE(records.recording, writer_->processor_time() - before);
}

// The other of the two tensors differs in the step after.
TEST_F(ArmRecorderTest, TensorsOfTheFirstUnequalReplicasAreKept) {
  for (const int64_t step : {0, 1, 2}) {
    for (const int rank : {0, 1}) {
      RecordBatch batch = OneStep(rank, step);
      StepRecord& record = *batch.mutable_steps(0);
      record.add_tensor_digests(rank == 1 && step == 2 ? 5 : 4);
      record.add_tensor_digests(rank == 1 && step == 1 ? 9 : 8);
      record.set_parameter_digest(record.tensor_digests(0) + record.tensor_digests(1));
      recorder_->Reported(MakeHello(rank).member(), batch, absl::ZeroDuration());
    }
  }
  ASSERT_OK(recorder_->End(absl::OkStatus()));
  EXPECT_THAT(
      Column("SELECT run || ', ' || step || ', ' || tensor || ', ' || rank || "
             "': ' || digest FROM tensor_digests"),
      ElementsAre("1, 1, 1, 0: 0000000000000008", "1, 1, 1, 1: 0000000000000009"));
  ASSERT_OK_AND_ASSIGN(const ArmRecords records, ReadArm(Path(), "arm", 0));
  JobSpec spec = MakeSpec();
  spec.set_steps(3);
  EXPECT_EQ(Summarize(spec, records, absl::OkStatus()).replica.why,
            "ranks 0 and 1 differ at step 1, in tensor bias");
}

// A gradient that is not finite may be the consequence: the rest of the run is missing,
// and the reports of some ranks.
TEST_F(ArmRecorderTest, UnequalReplicasOfARunThatHasEndedEarlyFail) {
  for (const int rank : {0, 1}) {
    RecordBatch batch = OneStep(rank, 0);
    StepRecord& record = *batch.mutable_steps(0);
    record.add_tensor_digests(4 + rank);
    record.add_tensor_digests(8);
    record.set_parameter_digest(12 + rank);
    recorder_->Reported(MakeHello(rank).member(), batch, absl::ZeroDuration());
  }
  const absl::Status outcome = absl::OutOfRangeError("a gradient is nan");
  ASSERT_OK(recorder_->End(outcome));
  ASSERT_OK_AND_ASSIGN(const ArmRecords records, ReadArm(Path(), "arm", 0));
  const ArmResult result = Summarize(MakeSpec(), records, outcome);
  EXPECT_EQ(result.replica.verdict, Verdict::kFail);
  EXPECT_EQ(result.replica.why, "ranks 0 and 1 differ at step 0, in tensor weight");
  EXPECT_EQ(result.traffic.verdict, Verdict::kNotApplicable);
}

}  // namespace
}  // namespace psring
