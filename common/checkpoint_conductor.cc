#include "common/checkpoint_conductor.h"

#include <algorithm>
#include <utility>

#include "absl/strings/str_cat.h"
#include "common/checkpoint.h"
#include "common/job_plan.h"
#include "common/liveness.h"

namespace psring {
namespace {

// Steps may take nearly as long as makes a worker stalled, and where workers do not keep
// step it takes a few of them.
constexpr int kStepsToHold = 8;
// Of the time without progress that makes a worker stalled: who waits in a step for one
// that holds makes none.
constexpr double kMostPatience = 0.75;

CheckpointRounds::Plan PlanOf(const JobSpec& spec) {
  CheckpointRounds::Plan plan;
  plan.workers = spec.workers();
  plan.servers = spec.servers();
  plan.lockstep = KeepsStep(spec);
  plan.steps = spec.steps();
  plan.folder = spec.checkpoint_folder();
  plan.first_step = spec.restored().step();
  const absl::Duration stall = SettingsOf(spec.experiment().liveness()).stall;
  plan.deadline = kStepsToHold * stall;
  plan.most_patience = kMostPatience * stall;
  if (!plan.folder.empty()) {
    plan.every_steps = spec.experiment().checkpoint().every_steps();
  }
  return plan;
}

}  // namespace

CheckpointConductor::CheckpointConductor(const JobSpec& spec, const TimeSource* time,
                                         Abort abort)
    : spec_(spec), time_(time), abort_(std::move(abort)), rounds_(PlanOf(spec)) {
  MutexLock lock(&mutex_);
  latest_ = rounds_.Start().order;
  if (!spec_.checkpoint_folder().empty()) {
    finisher_ = std::thread([this] { FinishSaved(); });
  }
}

CheckpointConductor::~CheckpointConductor() {
  {
    MutexLock lock(&mutex_);
    ending_ = true;
    to_finish_.NotifyOne();
  }
  if (finisher_.joinable()) finisher_.join();
}

void CheckpointConductor::Request(const absl::Status& then) {
  Consequences consequences;
  {
    MutexLock lock(&mutex_);
    then_.Update(then);
    if (spec_.checkpoint_folder().empty()) {
      consequences.end =
          EndLocked("no checkpoint: the experiment has no `checkpoint`", /*ends=*/false);
    } else {
      consequences = NoteLocked(rounds_.Request(time_->Elapsed()));
    }
  }
  Do(consequences);
}

void CheckpointConductor::Take(const Member& from, const CheckpointReply& reply) {
  Consequences consequences;
  {
    MutexLock lock(&mutex_);
    consequences = NoteLocked(rounds_.Take(from, reply));
  }
  Do(consequences);
}

void CheckpointConductor::Tick() {
  Consequences consequences;
  {
    MutexLock lock(&mutex_);
    consequences = NoteLocked(rounds_.Tick(time_->Elapsed()));
  }
  Do(consequences);
}

CheckpointConductor::Consequences CheckpointConductor::NoteLocked(
    const CheckpointRounds::Outcome& outcome) {
  Consequences consequences{.order = outcome.order.has_value(), .end = absl::OkStatus()};
  if (outcome.order) latest_ = outcome.order;
  if (outcome.saved) {
    saved_ = outcome.saved;
    to_finish_.NotifyOne();
  }
  if (!outcome.instead.empty()) {
    consequences.end =
        EndLocked(absl::StrCat("no checkpoint: ", outcome.instead), outcome.ends);
  }
  return consequences;
}

absl::Status CheckpointConductor::EndLocked(std::string news, bool ends) {
  if (ends && !then_.ok()) {
    absl::StrAppend(&news, "; it comes to its end before it stops");
    then_ = absl::OkStatus();
  }
  news_.push_back(std::move(news));
  return then_;
}

void CheckpointConductor::Do(const Consequences& consequences) {
  if (!consequences.end.ok()) abort_(consequences.end);
  if (consequences.order) SendLatest();
}

void CheckpointConductor::FinishSaved() {
  while (true) {
    CheckpointRounds::Saved saved;
    {
      MutexLock lock(&mutex_);
      while (!saved_ && !ending_) to_finish_.Wait(&mutex_);
      if (!saved_) return;
      saved = *std::exchange(saved_, std::nullopt);
    }
    if (const absl::Status written = WriteManifest(saved); !written.ok()) {
      abort_(written);
      continue;
    }
    Consequences consequences;
    {
      MutexLock lock(&mutex_);
      CheckpointRounds::Outcome outcome = rounds_.Complete();
      // Before anybody goes on: a job that is to end here makes no further step.
      if (!then_.ok()) outcome.order.reset();
      consequences = NoteLocked(outcome);
      consequences.end =
          EndLocked(absl::StrCat("checkpoint of step ", saved.step, ": ", saved.folder),
                    /*ends=*/false);
    }
    Do(consequences);
    // Nobody needs to hold for it.
    const absl::Status removed = RemoveOldCheckpoints(
        spec_.checkpoint_folder(),
        std::max<int64_t>(1, spec_.experiment().checkpoint().keep()));
    if (!removed.ok()) abort_(removed);
  }
}

absl::Status CheckpointConductor::WriteManifest(
    const CheckpointRounds::Saved& saved) const {
  CheckpointManifest manifest;
  *manifest.mutable_spec() = spec_;
  manifest.set_step(saved.step);
  for (const int64_t step : saved.next_steps) manifest.add_next_steps(step);
  for (const CheckpointPart& part : saved.parts) *manifest.add_parts() = part;
  return WriteCheckpointManifest(saved.folder, manifest);
}

void CheckpointConductor::SendLatest() {
  MutexLock lock(&listeners_mutex_);
  CheckpointOrder order;
  {
    MutexLock inner(&mutex_);
    if (!latest_) return;
    order = *latest_;
  }
  for (const auto& [id, listener] : listeners_) listener(order);
}

int64_t CheckpointConductor::AddListener(Listener listener) {
  MutexLock lock(&listeners_mutex_);
  std::optional<CheckpointOrder> order;
  {
    MutexLock inner(&mutex_);
    order = latest_;
  }
  if (order) listener(*order);
  listeners_[++last_listener_] = std::move(listener);
  return last_listener_;
}

void CheckpointConductor::RemoveListener(int64_t id) {
  MutexLock lock(&listeners_mutex_);
  listeners_.erase(id);
}

std::vector<std::string> CheckpointConductor::TakeNews() {
  MutexLock lock(&mutex_);
  return std::exchange(news_, {});
}

}  // namespace psring
