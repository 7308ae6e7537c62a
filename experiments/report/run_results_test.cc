// What the page reads of a run's folder.
#include "experiments/report/run_results.h"

#include <fstream>
#include <string>
#include <vector>

#include "absl/strings/str_cat.h"
#include "common/errors.h"
#include "common/status_matchers.h"
#include "experiments/config.h"
#include "experiments/report/curves.h"
#include "experiments/report/exchange_line.h"
#include "experiments/resolve_arms.h"
#include "experiments/run_database_test_util.h"
#include "experiments/sqlite.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "worker/data_set.h"

namespace psring {
namespace {

using testing::ElementsAre;
using testing::HasSubstr;
using testing::IsEmpty;
using testing::SizeIs;

// One bucket, and of servers one slot.
constexpr char kExperiment[] = R"(
name: "made_up"
model { tensors { elements: 6 repeat: 1 } }
training { steps: 6 global_batch: 6 seed: 3 optimizer { sgd { learning_rate: 0.5 } } }
compute { emulated {} }
cluster { workers: 2 servers: 1 }
arms { name: "servers" parameter_server {} }
arms { name: "ring" ring {} }
expect { between { figure: "busiest_out_bytes" arm: "ring" low: 0 high: 1 } }
)";

class RunResultsTest : public RunDatabaseTest {
 protected:
  void SetUp() override {
    RunDatabaseTest::SetUp();
    Write("config.textproto", kExperiment);
    Write("environment.json", "{\"cores\": \"2\"}");
    ASSERT_OK_AND_ASSIGN(const Experiment experiment,
                         LoadExperiment(folder_ + "/config.textproto", {}));
    ASSERT_OK_AND_ASSIGN(specs_, ResolveArms(experiment, "", DataSetShape()));
    for (JobSpec& spec : specs_) spec = RunsOf(spec).front();
  }

  void Write(const std::string& name, const std::string& text) const {
    std::ofstream(absl::StrCat(folder_, "/", name)) << text;
  }

  // With the steps from `first` on of both workers, each 1 ms, and what servers counted.
  void AddRun(JobSpec spec, int64_t first, const absl::Status& outcome) {
    if (first > 0) spec.mutable_restored()->set_step(first);
    ASSERT_OK(database_->BeginRun(spec, "some mode", "", kStarted));
    for (int rank = 0; rank < spec.workers(); ++rank) {
      RecordBatch worker, server;
      for (int64_t step = first; step < spec.steps(); ++step) {
        StepRecord& record = *worker.add_steps();
        record.set_rank(rank);
        record.set_step(step);
        record.set_samples(3);
        record.set_loss(1);
        record.set_start_ns(1'000'000 * (step - first));
        record.set_total_ns(1'000'000);
        record.set_recording_ns(1'000);
        record.set_data_ns(20'000);
        record.set_forward_ns(300'000);
        record.set_backward_ns(400'000);
        ContributionRecord& made = *server.add_contributions();
        made.set_rank(rank);
        made.set_step(step);
        made.set_version_read(step);
        made.set_version(step);
      }
      ASSERT_OK(database_->AddRecords(MakeMember(WORKER, rank), worker));
      if (spec.servers() == 0) continue;
      ASSERT_OK(database_->AddRecords(MakeMember(SERVER, 0), server));
    }
    ASSERT_OK(database_->EndRun(kEnded, outcome));
  }

  std::vector<JobSpec> specs_;
};

TEST_F(RunResultsTest, ARunThatContinuedFromACheckpointIsOfTheStepsAfterIt) {
  AddRun(specs_[0], 4, absl::OkStatus());
  AddRun(specs_[1], 0, absl::OkStatus());
  ASSERT_OK_AND_ASSIGN(const RunResults results, ReadRunResults(folder_));
  ASSERT_THAT(results.ended, SizeIs(2));
  EXPECT_EQ(results.ended[0].restored_step, 4);
  EXPECT_EQ(results.ended[0].endpoints[1].steps, 2);
  EXPECT_EQ(results.ended[0].consistency.verdict, Verdict::kPass)
      << results.ended[0].consistency.why;
  EXPECT_EQ(results.ended[1].endpoints[1].steps, 6);

  // So are its losses, and their steps are counted from the beginning all the same.
  ASSERT_OK_AND_ASSIGN(const auto database,
                       SqliteConnection::OpenReadOnly(results.database()));
  ASSERT_OK_AND_ASSIGN(const std::vector<LossPoint> losses,
                       ReadLosses(*database, results.ended[0]));
  ASSERT_THAT(losses, SizeIs(2));
  EXPECT_EQ(losses[0].step, 5);
  EXPECT_EQ(losses[1].step, 6);
  EXPECT_DOUBLE_EQ(losses[1].seconds, 0.002);
}

// What a comparison expects has been looked at where it did all its runs, also where a
// gradient was not finite in one.
TEST_F(RunResultsTest, ExpectationsAreOfAComparisonThatDidAllItsRuns) {
  AddRun(specs_[0], 0, NotANumberError("worker 1: step 5: not finite"));
  AddRun(specs_[1], 0, absl::OkStatus());
  ASSERT_OK_AND_ASSIGN(const RunResults going_on, ReadRunResults(folder_));
  EXPECT_THAT(going_on.expectations, IsEmpty());
  Write("summary.json", "{\"error\": \"stopped by Interrupt\"}");
  ASSERT_OK_AND_ASSIGN(const RunResults stopped, ReadRunResults(folder_));
  EXPECT_THAT(stopped.expectations, IsEmpty());
  Write("summary.json", "{\"error\": null}");
  ASSERT_OK_AND_ASSIGN(const RunResults done, ReadRunResults(folder_));
  EXPECT_THAT(done.expectations, SizeIs(1));
  ASSERT_THAT(done.unfinished, SizeIs(1));
  EXPECT_THAT(done.unfinished[0].error, HasSubstr("not finite"));
}

TEST_F(RunResultsTest, BackwardStandsBehindTheOtherPartsOfItsStep) {
  AddRun(specs_[1], 0, absl::OkStatus());
  ASSERT_OK_AND_ASSIGN(const RunResults results, ReadRunResults(folder_));
  EXPECT_THAT(results.not_run, ElementsAre("servers"));
  ASSERT_OK_AND_ASSIGN(const auto database,
                       SqliteConnection::OpenReadOnly(results.database()));
  ASSERT_OK_AND_ASSIGN(const ExchangeLine line,
                       ReadExchangeLine(*database, results.ended[0], 1));
  ASSERT_THAT(line.backward, SizeIs(1));
  EXPECT_DOUBLE_EQ(line.backward[0].begin, 0.321);
  EXPECT_DOUBLE_EQ(line.backward[0].end, 0.721);
}

}  // namespace
}  // namespace psring
