#include "server/shard_slot.h"

#include <algorithm>
#include <span>
#include <utility>

#include "absl/strings/str_cat.h"
#include "common/arithmetic.h"
#include "common/due.h"
#include "common/status_macros.h"
#include "server/update_scale.h"

namespace psring {
namespace {

int64_t BytesOf(int64_t count) { return count * int64_t{sizeof(float)}; }

std::shared_ptr<MemoryGauge> GaugeOf(const ParameterShard::Options& options,
                                     const char* purpose) {
  return options.memory == nullptr ? nullptr : options.memory->Of(purpose);
}

}  // namespace

ShardSlot::ShardSlot(const Slot& slot, const ParameterShard::Options& options,
                     const ConsistencyPolicy* policy, LinkCounters* traffic)
    : slot_(slot),
      workers_(options.workers),
      start_(options.start.value_or(StartOfJob(options.workers))),
      steps_(options.steps),
      snapshot_interval_(options.snapshot_interval),
      contributors_(options.contributors.value_or(Contributors(options.workers))),
      stale_updates_(options.stale_updates),
      policy_(policy),
      promise_(policy->promise()),
      first_steps_(ClocksOf(start_, promise_)),
      traffic_(traffic),
      time_(options.time),
      fold_(options.order, slot.range, options.bucket_ranges[slot.bucket],
            options.ring_order.value_or(RingOrder(options.workers))),
      constants_(options.constants),
      on_contribution_(options.on_contribution),
      contribution_memory_(GaugeOf(options, memory_purpose::kContributions)),
      version_(start_.version),
      counted_(ContributionsOf(start_)),
      clocks_(first_steps_),
      parameters_({.current = GaugeOf(options, memory_purpose::kParameters),
                   .older = GaugeOf(options, memory_purpose::kOlderVersions)}),
      optimizer_(options.optimizer, slot.range.count,
                 GaugeOf(options, memory_purpose::kOptimizerState)),
      round_(options.workers),
      pulled_(options.workers),
      clock_lag_(options.workers) {
  older_.reserve(promise_.older_versions + 1);
  if (slot.index == 0 && steps_ > 0) budget_.emplace(start_.made, steps_, promise_.even);
}

absl::Status ShardSlot::Initialize(const FloatPieces& parameters) {
  RETURN_IF_ERROR(CheckCount(parameters, [] { return "the initialization"; }));
  ParkedPulls::List answered;
  {
    MutexLock lock(&mutex_);
    if (!aborted_.ok()) return aborted_;
    if (initialized_) {
      return absl::FailedPreconditionError(absl::StrCat(
          "slot ", slot_.index, " is already initialized, and at version ", version_));
    }
    traffic_->CountIn(TrafficKind::kInitial, BytesOf(parameters.count()), /*peer=*/0);
    parameters_.Assign(parameters);
    initialized_ = true;
    answered = AnswerParkedLocked(/*rank=*/0);
  }
  Finish(std::move(answered));
  return absl::OkStatus();
}

// What an update needs is known before the lock is taken: getting it may wait, and with
// the lock held nobody could pull, or abort the wait. An update may be the turn of pushes
// that have waited; they are taken in the same way.
absl::Status ShardSlot::Push(const PushInfo& push, Contribution contribution) {
  RETURN_IF_ERROR(CheckCount(contribution.gradient, [&] {
    return absl::StrCat("the push of rank ", push.rank);
  }));
  const int64_t payload_bytes = contribution.payload_bytes > 0
                                    ? contribution.payload_bytes
                                    : BytesOf(slot_.range.count);
  std::optional<HeldPush> next =
      HeldPush{.push = push,
               .contribution = std::move(contribution),
               .claim = MemoryClaim(contribution_memory_, BytesOf(slot_.range.count)),
               .read = {}};
  bool first = true;
  while (next.has_value()) {
    const int64_t version = this->version();
    const absl::StatusOr<StepConstants> constants = constants_->At(version);
    ParkedPulls::List answered;
    {
      MutexLock lock(&mutex_);
      if (!aborted_.ok()) return aborted_;
      if (version_ != version) continue;  // Another push has made an update meanwhile.
      if (first) RETURN_IF_ERROR(CheckPushLocked(push));
      const bool again = first && clocks_.HasPushed(push.rank, push.step);
      if (!again) {
        RETURN_IF_ERROR(constants.status());
        RETURN_IF_ERROR(TakeLocked(*std::move(next), *constants));
      }
      if (std::exchange(first, false)) {
        traffic_->CountIn(TrafficKind::kStep, payload_bytes, push.rank);
      }
      if (again) return absl::OkStatus();
      answered = AnswerParkedLocked(push.rank);
      next = NextDueLocked();
    }
    Finish(std::move(answered));
  }
  return absl::OkStatus();
}

absl::Status ShardSlot::CheckPushLocked(const PushInfo& push) const {
  if (!initialized_) {
    return absl::FailedPreconditionError(
        absl::StrCat("slot ", slot_.index, " is not initialized, and rank ", push.rank,
                     " pushes step ", push.step));
  }
  if (push.version < 0 || push.version > version_) {
    return absl::InvalidArgumentError(absl::StrCat(
        "slot ", slot_.index, " is at version ", version_, ", and rank ", push.rank,
        " pushes step ", push.step, ", computed from version ", push.version));
  }
  if (clocks_.HasPushed(push.rank, push.step)) return absl::OkStatus();
  const int64_t pulled = pulled_[push.rank].version;
  if (stale_updates_.delay_compensation() != 0 && pulled != push.version) {
    return absl::InvalidArgumentError(absl::StrCat(
        "rank ", push.rank, " pushes step ", push.step, " to slot ", slot_.index,
        ", computed from version ", push.version, ", but has pulled version ", pulled));
  }
  if (budget_ && !budget_->IsAllowed(push.rank)) {
    return absl::FailedPreconditionError(
        absl::StrCat("rank ", push.rank, " pushes step ", push.step, " to slot ",
                     slot_.index, ", which no answer to a pull has allowed it to begin"));
  }
  if (clocks_.HasLeft(push.rank)) {
    return absl::FailedPreconditionError(absl::StrCat("rank ", push.rank, " pushes step ",
                                                      push.step, " to slot ", slot_.index,
                                                      ", which it has left"));
  }
  return absl::OkStatus();
}

absl::Status ShardSlot::TakeLocked(HeldPush held, const StepConstants& constants) {
  const PushInfo push = held.push;
  const PushAction action = policy_->OnPush(push, clocks_, version_);
  if (action == PushAction::kRefuse) {
    return absl::FailedPreconditionError(
        absl::StrCat("slot ", slot_.index, " is at version ", version_, ", and rank ",
                     push.rank, " pushes step ", push.step, ", which has not begun"));
  }
  if (!clocks_.HasPushed(push.rank, push.step)) {  // Else it has waited.
    clocks_.RecordPush(push.rank, push.step);
    if (budget_) budget_->Spend(push.rank);
    // Its worker may pull for the next step while it waits.
    held.read = pulled_[push.rank];
  }
  switch (action) {
    case PushAction::kHold:
      round_.Hold(std::move(held));
      if (policy_->RoundCloses(clocks_, version_)) UpdateLocked(constants);
      break;
    case PushAction::kApply:
      round_.Hold(std::move(held));
      UpdateLocked(constants);
      break;
    case PushAction::kWait:
      waiting_.push_back(std::move(held));
      break;
    case PushAction::kDropLate:
      CountLocked(push, ContributionRecord::LATE);
      break;
    case PushAction::kDropStale:
      CountLocked(push, ContributionRecord::STALE);
      break;
    case PushAction::kRefuse:
      break;
  }
  return absl::OkStatus();
}

std::optional<HeldPush> ShardSlot::NextDueLocked() {
  for (auto held = waiting_.begin(); held != waiting_.end(); ++held) {
    if (policy_->OnPush(held->push, clocks_, version_) == PushAction::kWait) continue;
    std::optional<HeldPush> next = std::move(*held);
    waiting_.erase(held);
    return next;
  }
  return std::nullopt;
}

// The mean goes from the sum straight into the optimizer, one cached block after the
// other; contributions and parameters are read once. The mean of one contribution is
// itself.
void ShardSlot::UpdateLocked(StepConstants constants) {
  const absl::Duration start = time_->Elapsed();
  // One push, where there are no rounds.
  const HeldPush* const only = promise_.rounds ? nullptr : &round_.only();
  constants =
      ScaledForUpdate(promise_, stale_updates_, workers_, round_.count(),
                      only == nullptr ? 0 : version_ - only->push.version, constants);
  if (promise_.older_versions > 0) {
    older_.push_back(CurrentLocked());
    if (static_cast<int64_t>(older_.size()) > promise_.older_versions) {
      older_.erase(older_.begin());
    }
  }
  const float lambda = stale_updates_.delay_compensation();
  const std::span<const float> read =
      lambda == 0 ? std::span<const float>() : only->read.values;
  const std::span<float> parameters = parameters_.MakeWritable();
  SliceOptimizer* const optimizer = &optimizer_;
  fold_.Mean(
      round_.gradients(),
      [&](int64_t begin, std::span<float> mean) {
        const std::span<float> now = parameters.subspan(begin, mean.size());
        if (!read.empty()) {
          CompensateDelay(mean, lambda, now, read.subspan(begin, mean.size()));
        }
        optimizer->Apply(constants, begin, now, mean);
      },
      workers_ - contributors_.At(version_));
  working_ = time_->Elapsed() - start;
  for (const std::optional<HeldPush>& held : round_.held()) {
    if (held) CountLocked(held->push, ContributionRecord::APPLIED);
  }
  round_.Clear();
  ++version_;
  KeepSnapshotsLocked();
}

void ShardSlot::CountLocked(const PushInfo& push, ContributionRecord::Outcome outcome) {
  ++counted_;
  if (outcome != ContributionRecord::APPLIED) KeepSnapshotsLocked();
  if (!on_contribution_) return;
  ContributionRecord record;
  record.set_slot(slot_.index);
  record.set_rank(push.rank);
  record.set_step(push.step);
  record.set_version_read(push.version);
  record.set_version(version_);
  record.set_outcome(outcome);
  record.set_clock_lag(clock_lag_[push.rank]);
  record.set_time_ns(absl::ToInt64Nanoseconds(time_->Elapsed()));
  on_contribution_(record);
}

void ShardSlot::KeepSnapshotsLocked() {
  int64_t kept = snapshots_.empty() ? ContributionsOf(start_) / workers_
                                    : snapshots_.rbegin()->first;
  while (kept < steps_) {
    kept = NextDue(kept, steps_, snapshot_interval_);
    if (counted_ < kept * workers_) return;
    snapshots_[kept] = {.parameters = CurrentLocked(), .time = time_->Elapsed()};
  }
}

absl::Status ShardSlot::Leave(int rank) {
  while (true) {
    const int64_t version = this->version();
    const absl::StatusOr<StepConstants> constants = constants_->At(version);
    ParkedPulls::List answered;
    {
      MutexLock lock(&mutex_);
      if (!aborted_.ok()) return aborted_;
      if (version_ != version) continue;
      clocks_.Leave(rank);
      if (RoundClosesLocked()) {
        RETURN_IF_ERROR(constants.status());
        UpdateLocked(*constants);
      }
      answered = AnswerParkedLocked(rank);
    }
    Finish(std::move(answered));
    return absl::OkStatus();
  }
}

bool ShardSlot::RoundClosesLocked() const {
  return round_.count() > 0 && policy_->RoundCloses(clocks_, version_);
}

absl::StatusOr<SlotSnapshot> ShardSlot::Snapshot(int64_t step) const {
  MutexLock lock(&mutex_);
  if (!aborted_.ok()) return aborted_;
  if (!initialized_) {
    return absl::FailedPreconditionError(
        absl::StrCat("slot ", slot_.index, " is not initialized"));
  }
  if (const auto found = snapshots_.find(step); found != snapshots_.end()) {
    return found->second;
  }
  if (counted_ / workers_ < step) {  // Not multiplied: the step may be any number.
    return SlotSnapshot{.parameters = CurrentLocked(), .time = time_->Elapsed()};
  }
  return absl::NotFoundError(
      absl::StrCat("slot ", slot_.index, " has kept no snapshot of step ", step));
}

SlotState ShardSlot::State() {
  MutexLock lock(&mutex_);
  return {.range = slot_.range,
          .parameters = CurrentLocked(),
          .optimizer = optimizer_.state()};
}

void ShardSlot::Abort(const absl::Status& reason) {
  ParkedPulls::List ended;
  {
    MutexLock lock(&mutex_);
    if (!aborted_.ok()) return;
    aborted_ = reason;
    ended = parked_.TakeAll();
  }
  Finish(std::move(ended), reason);
}

absl::Status ShardSlot::CheckCount(const FloatPieces& values,
                                   absl::FunctionRef<std::string()> what) const {
  if (values.count() == slot_.range.count) return absl::OkStatus();
  return absl::InvalidArgumentError(absl::StrCat("slot ", slot_.index, " has ",
                                                 slot_.range.count, " elements here, ",
                                                 what(), " carries ", values.count()));
}

SlotVersion ShardSlot::CurrentLocked() const {
  return {
      .version = version_, .values = parameters_.values(), .owner = parameters_.Share()};
}

int64_t ShardSlot::version() const {
  MutexLock lock(&mutex_);
  return version_;
}

}  // namespace psring
