// The causes of exposed time, from the records of a run to its rows of `waits`.
#include "experiments/run_waits.h"

#include <vector>

#include "absl/strings/str_cat.h"
#include "common/status_matchers.h"
#include "experiments/run_database_test_util.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"

namespace psring {
namespace {

using testing::ElementsAre;

class RunWaitsTest : public RunDatabaseTest {
 protected:
  // Backward ends at 1000 * (step + 1); then 100 ns are exposed, and 100 the optimizer's.
  static StepRecord Step(int64_t step, int64_t launched_ns, int64_t done_ns) {
    StepRecord record;
    record.set_step(step);
    record.set_start_ns(1000 * step);
    record.set_backward_ns(1000);
    record.set_exposed_ns(100);
    record.set_optimizer_ns(100);
    BucketTimes& times = *record.add_buckets();
    times.set_ready_ns(launched_ns);
    times.set_launched_ns(launched_ns);
    times.set_done_ns(done_ns);
    times.set_working_ns(5);
    return record;
  }
  void Report(int rank, std::vector<StepRecord> steps, int64_t clock_offset_ns = 0) {
    RecordBatch batch;
    for (StepRecord& step : steps) {
      step.set_rank(rank);
      *batch.add_steps() = step;
    }
    ClockRecord& clock = *batch.add_clocks();
    clock.set_process(absl::StrCat("worker ", rank));
    clock.set_offset_ns(clock_offset_ns);
    clock.set_error_ns(3);
    clock.set_time_ns(17);
    ASSERT_OK(database_->AddRecords(MakeMember(WORKER, rank), batch));
  }
};

// Worker 1, whose clock is 500 behind, launches 60 ns after worker 0 has ended backward.
// The reader sees of the run what it was cut with.
TEST_F(RunWaitsTest, TheLateWorkerIsNamedOnTheOthers) {
  for (const char* const name : {"arm", "another"}) {
    ASSERT_OK(BeginRun(name));
    ASSERT_OK(database_->AddPlan({{.bytes = 12}}));
    Report(1, {Step(0, 560, 600), Step(1, 1400, 1600)}, 500);
    Report(0, {Step(0, 900, 1100), Step(1, 1900, 2100), Step(2, 2900, 3100)});
    EXPECT_THAT(
        Rows("SELECT * FROM waits JOIN runs USING (run) WHERE outcome IS NULL", 1),
        testing::IsEmpty());
    ASSERT_OK(database_->EndRun(kEnded, absl::OkStatus()));
  }
  // Moves for 40 ns in step 0, for 200 or more after that.
  EXPECT_THAT(
      Rows("SELECT * FROM waits WHERE run = 2", 8),
      ElementsAre("2|0|0|0|60|35|5|1", "2|0|1|0|0|98|2|NULL", "2|0|2|0|0|98|2|NULL",
                  "2|1|0|0|0|0|100|NULL", "2|1|1|0|0|0|100|NULL"));
  EXPECT_THAT(Rows("SELECT count(*) FROM waits JOIN steps USING (run, rank, step) WHERE "
                   "exposed_ns = not_ready_ns + peer_late_ns + on_wire_ns + working_ns",
                   1),
              ElementsAre("10"));
  EXPECT_THAT(Rows("SELECT * FROM clocks WHERE run = 1", 5),
              ElementsAre("1|worker 0|17|0|3", "1|worker 1|17|500|3"));
}

TEST_F(RunWaitsTest, WhereWorkersDoNotKeepStepItIsTheServersWord) {
  JobSpec spec = MakeSpec("async");
  spec.mutable_arm()->mutable_parameter_server()->mutable_bounded()->set_bound(1);
  ASSERT_OK(database_->BeginRun(spec, "bounded", "", kStarted));
  ASSERT_OK(database_->AddPlan({{.bytes = 12}}));
  StepRecord kept_back = Step(0, 900, 1200);
  kept_back.set_optimizer_ns(0);
  kept_back.set_exposed_ns(200);
  kept_back.set_peer_late_ns(150);
  kept_back.set_waited_for(1);
  Report(0, {kept_back});
  Report(1, {Step(0, 1190, 1200)});
  ASSERT_OK(database_->EndRun(kEnded, absl::OkStatus()));
  EXPECT_THAT(Rows("SELECT * FROM waits WHERE rank = 0", 8),
              ElementsAre("1|0|0|0|150|45|5|1"));
  EXPECT_THAT(Rows("SELECT parked_ns, released_by FROM steps WHERE rank = 0", 2),
              ElementsAre("150|1"));
  EXPECT_THAT(
      Rows("SELECT lockstep, reduction FROM runs", 2),
      ElementsAre("0|none, a worker's gradient is an update of its own, of 4 "
                  "samples each, global batch 8, effective learning rate 0.5 / 2"));
}

}  // namespace
}  // namespace psring
