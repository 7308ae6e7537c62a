#include "server/shard_slot.h"

#include <algorithm>
#include <span>
#include <utility>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "common/arithmetic.h"
#include "common/due.h"
#include "common/errors.h"
#include "common/status_macros.h"
#include "glog/logging.h"

namespace psring {
namespace {

int64_t BytesOf(int64_t count) { return count * int64_t{sizeof(float)}; }

float ScaleOf(const StaleUpdates& settings, int64_t staleness, int workers) {
  switch (settings.scale()) {
    case StaleUpdates::MEAN:
      return MeanFactor(workers);
    case StaleUpdates::INVERSE_STALENESS:
      return MeanFactor(std::max<int64_t>(1, staleness));
    default:
      return 1;
  }
}

StepConstants Scaled(StepConstants constants, float scale) {
  constants.learning_rate *= scale;
  constants.adam_step_size *= scale;
  return constants;
}

}  // namespace

ShardSlot::ShardSlot(const Slot& slot, const ParameterShard::Options& options,
                     const ConsistencyPolicy* policy, LinkCounters* traffic,
                     std::shared_ptr<BufferGauge> parameter_memory)
    : slot_(slot),
      workers_(options.workers),
      steps_(options.steps),
      snapshot_interval_(options.snapshot_interval),
      stale_updates_(options.stale_updates),
      policy_(policy),
      promise_(policy->promise()),
      traffic_(traffic),
      time_(options.time),
      fold_(options.order, slot.range, options.bucket_ranges[slot.bucket],
            options.ring_order.value_or(RingOrder(options.workers))),
      constants_(options.constants),
      on_contribution_(options.on_contribution),
      clocks_(options.workers),
      parameters_(std::move(parameter_memory)),
      optimizer_(options.optimizer, slot.range.count),
      round_(options.workers),
      pulled_(options.workers),
      clock_lag_(options.workers) {
  if (slot.index == 0 && steps_ > 0) budget_.emplace(workers_, steps_, promise_.even);
}

absl::Status ShardSlot::Initialize(const FloatPieces& parameters) {
  RETURN_IF_ERROR(CheckCount(parameters, "the initialization"));
  std::vector<AnsweredPull> answered;
  {
    MutexLock lock(&mutex_);
    if (!aborted_.ok()) return aborted_;
    if (initialized_) {
      return absl::FailedPreconditionError(absl::StrCat(
          "slot ", slot_.index, " is already initialized, and at version ", version_));
    }
    traffic_->CountIn(TrafficKind::kInitial, BytesOf(parameters.count()));
    parameters_.Assign(parameters);
    initialized_ = true;
    answered = AnswerParkedLocked(/*rank=*/0);
  }
  for (AnsweredPull& pull : answered) pull.done(std::move(pull.answer));
  return absl::OkStatus();
}

// What an update needs is known before the lock is taken: getting it may wait, and with
// the lock held nobody could pull, or abort the wait. An update may be the turn of pushes
// that have waited; they are taken in the same way.
absl::Status ShardSlot::Push(const PushInfo& push, Contribution contribution) {
  RETURN_IF_ERROR(
      CheckCount(contribution.gradient, absl::StrCat("the push of rank ", push.rank)));
  std::optional<HeldPush> next =
      HeldPush{.push = push, .contribution = std::move(contribution), .read = {}};
  bool first = true;
  while (next.has_value()) {
    const int64_t version = this->version();
    const absl::StatusOr<StepConstants> constants = constants_->At(version);
    std::vector<AnsweredPull> answered;
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
        traffic_->CountIn(TrafficKind::kStep, BytesOf(slot_.range.count));
      }
      if (again) return absl::OkStatus();
      answered = AnswerParkedLocked(push.rank);
      next = NextDueLocked();
    }
    for (AnsweredPull& pull : answered) pull.done(std::move(pull.answer));
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
      round_[push.rank] = std::move(held);
      if (policy_->RoundCloses(clocks_, version_)) UpdateLocked(constants);
      break;
    case PushAction::kApply:
      round_[push.rank] = std::move(held);
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

std::optional<ShardSlot::HeldPush> ShardSlot::NextDueLocked() {
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
  std::vector<FloatPieces> terms(round_.size());
  const HeldPush* only = nullptr;
  for (std::optional<HeldPush>& held : round_) {
    if (!held) continue;
    terms[held->push.rank] = std::move(held->contribution.gradient);
    only = &*held;
  }
  if (!promise_.rounds) {
    constants = Scaled(constants,
                       ScaleOf(stale_updates_, version_ - only->push.version, workers_));
  }
  if (promise_.rounds && !promise_.even) {
    // At the end of the run there are not always enough left to fill a round.
    const auto count = std::count_if(round_.begin(), round_.end(),
                                     [](const auto& held) { return held.has_value(); });
    constants =
        Scaled(constants, static_cast<float>(count) /
                              static_cast<float>(promise_.contributions_per_update));
  }
  if (promise_.older_versions > 0) {
    older_.push_back(CurrentLocked());
    if (static_cast<int64_t>(older_.size()) > promise_.older_versions) older_.pop_front();
  }
  const float lambda = stale_updates_.delay_compensation();
  const std::span<const float> read =
      lambda == 0 ? std::span<const float>() : only->read.values;
  const std::span<float> parameters = parameters_.MakeWritable();
  SliceOptimizer* const optimizer = &optimizer_;
  fold_.Mean(terms, [&](int64_t begin, std::span<float> mean) {
    const std::span<float> now = parameters.subspan(begin, mean.size());
    if (!read.empty()) {
      CompensateDelay(mean, lambda, now, read.subspan(begin, mean.size()));
    }
    optimizer->Apply(constants, begin, now, mean);
  });
  for (std::optional<HeldPush>& held : round_) {
    if (held) CountLocked(held->push, ContributionRecord::APPLIED);
    held.reset();
  }
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
  int64_t kept = snapshots_.empty() ? 0 : snapshots_.rbegin()->first;
  while (kept < steps_) {
    kept = NextDue(kept, steps_, snapshot_interval_);
    if (counted_ < kept * workers_) return;
    snapshots_[kept] = {.parameters = CurrentLocked(), .time = time_->Elapsed()};
  }
}

PullTicket ShardSlot::Pull(const PullInfo& pull, PullDone done) {
  absl::StatusOr<PullAnswer> answer;
  {
    MutexLock lock(&mutex_);
    if (!aborted_.ok()) {
      answer = aborted_;
    } else if (const auto version = VersionForLocked(pull); !version) {
      const int64_t id = ++last_pull_id_;
      parked_.push_back(
          {.id = id, .pull = pull, .since = time_->Elapsed(), .done = std::move(done)});
      return {.slot = slot_.index, .id = id};
    } else if (*version < version_ - static_cast<int64_t>(older_.size())) {
      answer = absl::FailedPreconditionError(
          absl::StrCat("slot ", slot_.index, " is at version ", version_, ", and rank ",
                       pull.rank, " pulls it for step ", pull.step, ", whose version ",
                       *version, " is no longer kept"));
    } else {
      answer = AnswerLocked(pull, *version);
    }
  }
  done(std::move(answer));
  return {.slot = slot_.index, .id = 0};
}

void ShardSlot::CancelPull(int64_t id) {
  ParkedPull cancelled;
  absl::Status status;
  {
    MutexLock lock(&mutex_);
    const auto found = std::find_if(parked_.begin(), parked_.end(),
                                    [&](const ParkedPull& p) { return p.id == id; });
    if (found == parked_.end()) return;
    cancelled = std::move(*found);
    parked_.erase(found);
    status = PeerLostError(
        absl::StrCat("slot ", slot_.index, ", pulled by rank ", cancelled.pull.rank,
                     " for step ", cancelled.pull.step, ", is at version ", version_,
                     " and waits for ", AwaitedLocked(cancelled.pull)));
  }
  cancelled.done(status);
}

absl::Status ShardSlot::Leave(int rank) {
  while (true) {
    const int64_t version = this->version();
    const absl::StatusOr<StepConstants> constants = constants_->At(version);
    std::vector<AnsweredPull> answered;
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
    for (AnsweredPull& pull : answered) pull.done(std::move(pull.answer));
    return absl::OkStatus();
  }
}

bool ShardSlot::RoundClosesLocked() const {
  const bool empty = std::none_of(round_.begin(), round_.end(),
                                  [](const auto& held) { return held.has_value(); });
  return !empty && policy_->RoundCloses(clocks_, version_);
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

void ShardSlot::Abort(const absl::Status& reason) {
  std::vector<ParkedPull> ended;
  {
    MutexLock lock(&mutex_);
    if (!aborted_.ok()) return;
    aborted_ = reason;
    ended.swap(parked_);
  }
  for (const ParkedPull& parked : ended) parked.done(reason);
}

absl::Status ShardSlot::CheckCount(const FloatPieces& values,
                                   const std::string& what) const {
  if (values.count() == slot_.range.count) return absl::OkStatus();
  return absl::InvalidArgumentError(absl::StrCat("slot ", slot_.index, " has ",
                                                 slot_.range.count, " elements here, ",
                                                 what, " carries ", values.count()));
}

SlotVersion ShardSlot::CurrentLocked() const {
  return {
      .version = version_, .values = parameters_.values(), .owner = parameters_.Share()};
}

std::optional<int64_t> ShardSlot::VersionForLocked(const PullInfo& pull) const {
  if (!initialized_ || clocks_.clock(pull.rank) < pull.step) return std::nullopt;
  if (const auto version = policy_->OnPull(pull, clocks_, version_)) return version;
  // Of a run that is over the policy might wait for more.
  if (steps_ > 0 && counted_ >= workers_ * steps_) return version_;
  return std::nullopt;
}

PullAnswer ShardSlot::AnswerLocked(const PullInfo& pull, int64_t version) {
  traffic_->CountOut(pull.step == 0 ? TrafficKind::kInitial : TrafficKind::kStep,
                     BytesOf(slot_.range.count));
  PullAnswer answer;
  if (version == version_) {
    answer.parameters = CurrentLocked();
  } else {
    const auto older = static_cast<int64_t>(older_.size()) - (version_ - version);
    CHECK(older >= 0 && version < version_) << "version " << version << " was not kept";
    answer.parameters = older_[older];
  }
  answer.step = promise_.rounds ? version : pull.step;
  answer.finished = budget_ && !budget_->Allow(pull.rank);
  // A pull that comes again late is not what the next push is computed from.
  if (pull.step < clocks_.clock(pull.rank)) return answer;
  if (stale_updates_.delay_compensation() != 0) pulled_[pull.rank] = answer.parameters;
  clock_lag_[pull.rank] = clocks_.Lag(pull.rank);
  return answer;
}

std::vector<ShardSlot::AnsweredPull> ShardSlot::AnswerParkedLocked(int rank) {
  std::vector<AnsweredPull> answered;
  std::vector<ParkedPull> still_parked;
  for (ParkedPull& parked : parked_) {
    if (const auto version = VersionForLocked(parked.pull)) {
      AnsweredPull& pull = answered.emplace_back();
      pull.done = std::move(parked.done);
      pull.answer = AnswerLocked(parked.pull, *version);
      pull.answer.parked = time_->Elapsed() - parked.since;
      pull.answer.released_by = rank;
    } else {
      still_parked.push_back(std::move(parked));
    }
  }
  parked_ = std::move(still_parked);
  return answered;
}

std::string ShardSlot::Awaited() const {
  MutexLock lock(&mutex_);
  if (parked_.empty()) return "";
  return absl::StrCat(AwaitedLocked(parked_.front().pull), " (slot ", slot_.index,
                      ", at version ", version_, ")");
}

std::string ShardSlot::AwaitedLocked(const PullInfo& pull) const {
  if (!initialized_) return "worker 0 to initialize it";
  if (clocks_.clock(pull.rank) < pull.step) {
    return absl::StrCat("worker ", pull.rank, "'s own push");
  }
  return absl::StrCat("the push of worker ",
                      absl::StrJoin(policy_->Awaited(pull, clocks_, version_), ", "));
}

int64_t ShardSlot::version() const {
  MutexLock lock(&mutex_);
  return version_;
}

int64_t ShardSlot::parked_pulls() const {
  MutexLock lock(&mutex_);
  return static_cast<int64_t>(parked_.size());
}

}  // namespace psring
