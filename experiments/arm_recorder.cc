#include "experiments/arm_recorder.h"

#include <algorithm>
#include <utility>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "absl/time/clock.h"
#include "common/coordinator.h"
#include "common/job_plan.h"
#include "common/status_macros.h"
#include "experiments/arm_mode.h"
#include "experiments/config.h"
#include "experiments/inject_config.h"
#include "experiments/planned_buckets.h"

namespace psring {
namespace {

// The resolved experiment as if it had this arm alone, of which nothing is expected.
std::string Configuration(const JobSpec& spec) {
  Experiment experiment = spec.experiment();
  experiment.clear_arms();
  *experiment.add_arms() = spec.arm();
  experiment.clear_expect();
  return PrintExperiment(experiment);
}

}  // namespace

ArmRecorder::ArmRecorder(const JobSpec& spec, DatabaseWriter* writer)
    : workers_(spec.workers()),
      first_step_(spec.restored().step()),
      has_loss_(!spec.experiment().compute().has_emulated()),
      writer_(writer),
      writer_before_(writer->processor_time()) {
  writer_->Add([spec, now = absl::Now()](RunDatabase& database) {
    RETURN_IF_ERROR(database.BeginRun(spec, ModeOf(spec), Configuration(spec), now));
    return database.AddPlan(PlannedBuckets(spec, PlanJob(spec).buckets));
  });
  for (const StallWorker& stall : spec.experiment().inject().stall_worker()) {
    Note(Severity::kWarning, absl::StrCat("worker ", stall.rank()),
         absl::StrCat("injected: gets stuck in step ", stall.step()));
  }
  for (const SlowWorker& slow : spec.experiment().inject().slow_worker()) {
    Note(Severity::kWarning, absl::StrCat("worker ", slow.rank()),
         absl::StrFormat("injected: computes %.3g times as long", slow.factor()));
  }
  for (const FlipBit& flip : spec.experiment().inject().flip_bit()) {
    Note(Severity::kWarning, absl::StrCat("worker ", flip.rank()),
         absl::StrCat("injected: ", DescribeFlip(flip)));
  }
  MutexLock lock(&mutex_);
  if (InLockstep(spec)) replicas_.emplace(spec.workers());
}

void ArmRecorder::Joined(const Hello& process) {
  writer_->Add([process, now = absl::Now()](RunDatabase& database) {
    return database.AddProcess(process, now);
  });
  Note(Severity::kInfo, ToString(process.member()),
       absl::StrCat("joined: process ", process.process_id(), " on ", process.host()));
}

void ArmRecorder::Ended(const Hello& process, const absl::Status& outcome) {
  writer_->Add([process, outcome, now = absl::Now()](RunDatabase& database) {
    return database.EndProcess(process, now, outcome);
  });
  const std::string name = ToString(process.member());
  if (outcome.ok()) {
    Note(Severity::kInfo, name, "left");
    return;
  }
  std::string text = absl::StrCat("ended with an error: ", outcome.message());
  if (process.member().role() == WORKER) {
    MutexLock lock(&mutex_);
    absl::StrAppend(&text,
                    "; steps recorded of it: ", totals_[process.member().rank()].steps);
  }
  Note(Severity::kError, name, text);
}

void ArmRecorder::Aborted(const absl::Status& reason) {
  Note(Severity::kError, "", absl::StrCat("the run was aborted: ", reason.message()));
}

void ArmRecorder::Warned(const std::string& text) { Note(Severity::kWarning, "", text); }

void ArmRecorder::Reported(const Member& from, RecordBatch batch, absl::Duration intake) {
  std::vector<TensorDigest> unequal;
  {
    MutexLock lock(&mutex_);
    for (const StepRecord& step : batch.steps()) {
      if (replicas_ && unequal.empty()) unequal = replicas_->Take(step);
      WorkerTotals& totals = totals_[step.rank()];
      ++totals.steps;
      totals.samples += step.samples();
      if (step.samples() > 0) totals.loss = step.loss();  // Else it has none.
      totals.trained = absl::Nanoseconds(step.start_ns() + step.total_ns());
    }
  }
  Add(std::move(unequal));
  writer_->Add([from, intake, batch = std::move(batch)](RunDatabase& database) {
    RETURN_IF_ERROR(database.AddRecords(from, batch));
    const std::string process = ToString(from);
    RETURN_IF_ERROR(database.SetRecordingTime(
        process, "send", absl::Nanoseconds(batch.sender_processor_ns())));
    return database.SetRecordingTime(process, "take in", intake);
  });
}

void ArmRecorder::Add(std::vector<TensorDigest> digests) {
  if (digests.empty()) return;
  writer_->Add([digests = std::move(digests)](RunDatabase& database) {
    return database.AddTensorDigests(digests);
  });
}

void ArmRecorder::Note(Severity severity, absl::string_view process,
                       absl::string_view text) {
  writer_->Add([severity, process = std::string(process), text = std::string(text),
                now = absl::Now()](RunDatabase& database) {
    return database.AddEvent(now, severity, process, text);
  });
}

void ArmRecorder::Sampled(const HostsReading& reading) {
  writer_->Add(
      [reading](RunDatabase& database) { return database.AddHostsReading(reading); });
}

ArmProgress ArmRecorder::Progress() const {
  MutexLock lock(&mutex_);
  if (static_cast<int>(totals_.size()) < workers_) return {};
  ArmProgress progress;
  double loss = 0;
  for (const auto& [rank, totals] : totals_) {
    progress.steps_done += totals.steps;
    progress.samples += totals.samples;
    progress.trained = std::max(progress.trained, totals.trained);
    loss += totals.loss / workers_;
  }
  if (has_loss_) progress.loss = loss;
  progress.steps_done /= workers_;
  progress.first_step = first_step_;
  return progress;
}

absl::Status ArmRecorder::End(const absl::Status& outcome) {
  {
    MutexLock lock(&mutex_);
    if (replicas_) Add(replicas_->End());
  }
  writer_->Add([outcome, now = absl::Now()](RunDatabase& database) {
    return database.EndRun(now, outcome);
  });
  RETURN_IF_ERROR(writer_->Flush());
  // What it costs to store what storing cost is not in it.
  writer_->Add(
      [cost = writer_->processor_time() - writer_before_](RunDatabase& database) {
        return database.SetRecordingTime("launcher", "store", cost);
      });
  return writer_->Flush();
}

}  // namespace psring
