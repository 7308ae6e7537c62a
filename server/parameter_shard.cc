#include "server/parameter_shard.h"

#include <algorithm>
#include <limits>
#include <string>
#include <utility>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "common/errors.h"
#include "common/optimizer.h"
#include "common/status_macros.h"
#include "glog/logging.h"
#include "server/round_fold.h"
#include "server/worker_clocks.h"

namespace psring {
namespace {

int64_t Bytes(std::span<const float> values) {
  return static_cast<int64_t>(values.size_bytes());
}

}  // namespace

// One slot: its parameters and optimizer state, its open round, its parked pulls. Its
// methods hold the lock only inside; Done callbacks run after it is released.
class ParameterShard::SlotState {
 public:
  SlotState(const Slot& slot, const Options& options, const ConsistencyPolicy* policy,
            LinkCounters* traffic)
      : slot_(slot),
        policy_(policy),
        traffic_(traffic),
        fold_(options.order, slot.range, options.bucket_ranges[slot.bucket],
              options.workers),
        constants_(options.constants),
        on_update_(options.on_update),
        clocks_(options.workers),
        round_(options.workers),
        optimizer_(options.optimizer, slot.range.count) {}

  absl::Status Initialize(std::span<const float> parameters);
  absl::Status Push(const PushInfo& push, Contribution contribution);
  PullTicket Pull(const PullInfo& pull, CopyAnswer copy, Done done);
  void CancelPull(int64_t id);
  void Abort(const absl::Status& reason);
  // Whom parked pulls wait for; empty without any.
  std::string Awaited() const {
    MutexLock lock(&mutex_);
    if (parked_.empty()) return "";
    if (!initialized_) return absl::StrCat("worker 0 to initialize slot ", slot_.index);
    return absl::StrCat("the push of step ", version_, " to slot ", slot_.index,
                        " by worker ", absl::StrJoin(clocks_.Missing(version_), ", "));
  }
  int64_t version() const {
    MutexLock lock(&mutex_);
    return version_;
  }
  int64_t parked_pulls() const {
    MutexLock lock(&mutex_);
    return static_cast<int64_t>(parked_.size());
  }

 private:
  struct ParkedPull {
    int64_t id = 0;
    PullInfo pull;
    CopyAnswer copy;
    Done done;
  };

  absl::Status CheckCount(std::span<const float> values, const std::string& what) const;
  bool MayPullLocked(const PullInfo& pull) const ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_) {
    return initialized_ && policy_->MayPull(pull.step, clocks_, version_);
  }
  void AnswerLocked(const PullInfo& pull, const CopyAnswer& copy)
      ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  // Takes the parked pulls that may now proceed and copies their answers; the caller
  // calls what is returned when it has let go of the lock.
  std::vector<Done> AnswerParkedLocked() ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  void CloseRoundLocked(const StepConstants& constants)
      ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  std::string AwaitedLocked() const ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);

  const Slot slot_;
  const ConsistencyPolicy* const policy_;
  LinkCounters* const traffic_;
  const RoundFold fold_;
  const std::shared_ptr<StepConstantsSource> constants_;
  const std::function<void(const AppliedUpdate&)> on_update_;

  mutable Mutex mutex_;
  absl::Status aborted_ ABSL_GUARDED_BY(mutex_);  // OK until aborted.
  bool initialized_ ABSL_GUARDED_BY(mutex_) = false;
  int64_t version_ ABSL_GUARDED_BY(mutex_) = 0;
  WorkerClocks clocks_ ABSL_GUARDED_BY(mutex_);
  std::vector<float> parameters_ ABSL_GUARDED_BY(mutex_);
  std::vector<Contribution> round_ ABSL_GUARDED_BY(mutex_);  // The open one's, by rank.
  SliceOptimizer optimizer_ ABSL_GUARDED_BY(mutex_);
  std::vector<ParkedPull> parked_ ABSL_GUARDED_BY(mutex_);  // In order of arrival.
  int64_t last_pull_id_ ABSL_GUARDED_BY(mutex_) = 0;
};

absl::Status ParameterShard::SlotState::Initialize(std::span<const float> parameters) {
  RETURN_IF_ERROR(CheckCount(parameters, "the initialization"));
  std::vector<Done> answered;
  {
    MutexLock lock(&mutex_);
    if (!aborted_.ok()) return aborted_;
    if (initialized_) {
      return absl::FailedPreconditionError(absl::StrCat(
          "slot ", slot_.index, " is already initialized, and at version ", version_));
    }
    traffic_->CountIn(TrafficKind::kInitial, Bytes(parameters));
    parameters_.assign(parameters.begin(), parameters.end());
    initialized_ = true;
    answered = AnswerParkedLocked();
  }
  for (const Done& done : answered) done(absl::OkStatus());
  return absl::OkStatus();
}

absl::Status ParameterShard::SlotState::Push(const PushInfo& push,
                                             Contribution contribution) {
  RETURN_IF_ERROR(
      CheckCount(contribution.gradient, absl::StrCat("the push of rank ", push.rank)));
  // A round is closed by a push of its own step, so what closing needs is known before
  // the lock is taken: getting it may wait, and with the lock held nobody could pull, or
  // abort the wait.
  const absl::StatusOr<StepConstants> constants = constants_->At(push.step);
  std::vector<Done> answered;
  {
    MutexLock lock(&mutex_);
    if (!aborted_.ok()) return aborted_;
    if (!initialized_) {
      return absl::FailedPreconditionError(
          absl::StrCat("slot ", slot_.index, " is not initialized, and rank ", push.rank,
                       " pushes step ", push.step));
    }
    const PushAction action = policy_->OnPush(push, clocks_, version_);
    if (action == PushAction::kRefuse) {
      return absl::FailedPreconditionError(
          absl::StrCat("slot ", slot_.index, " is at version ", version_, ", and rank ",
                       push.rank, " pushes step ", push.step, ", which has not begun"));
    }
    if (action != PushAction::kIgnore && !constants.ok()) return constants.status();
    traffic_->CountIn(TrafficKind::kStep, Bytes(contribution.gradient));
    if (action == PushAction::kIgnore) return absl::OkStatus();
    clocks_.RecordPush(push.rank, push.step);
    round_[push.rank] = std::move(contribution);
    if (action == PushAction::kHold) return absl::OkStatus();
    CHECK_EQ(push.step, version_);
    CloseRoundLocked(*constants);
    answered = AnswerParkedLocked();
  }
  for (const Done& done : answered) done(absl::OkStatus());
  return absl::OkStatus();
}

PullTicket ParameterShard::SlotState::Pull(const PullInfo& pull, CopyAnswer copy,
                                           Done done) {
  absl::Status status;
  {
    MutexLock lock(&mutex_);
    if (!aborted_.ok()) {
      status = aborted_;
    } else if (!MayPullLocked(pull)) {
      const int64_t id = ++last_pull_id_;
      parked_.push_back(
          {.id = id, .pull = pull, .copy = std::move(copy), .done = std::move(done)});
      return {.slot = slot_.index, .id = id};
    } else {
      AnswerLocked(pull, copy);
    }
  }
  done(status);
  return {.slot = slot_.index, .id = 0};
}

void ParameterShard::SlotState::CancelPull(int64_t id) {
  ParkedPull cancelled;
  absl::Status status;
  {
    MutexLock lock(&mutex_);
    const auto found = std::find_if(parked_.begin(), parked_.end(),
                                    [&](const ParkedPull& p) { return p.id == id; });
    if (found == parked_.end()) return;
    cancelled = std::move(*found);
    parked_.erase(found);
    status = PeerLostError(absl::StrCat("slot ", slot_.index, ", pulled by rank ",
                                        cancelled.pull.rank, " for step ",
                                        cancelled.pull.step, ", ", AwaitedLocked()));
  }
  cancelled.done(status);
}

void ParameterShard::SlotState::Abort(const absl::Status& reason) {
  std::vector<ParkedPull> ended;
  {
    MutexLock lock(&mutex_);
    if (!aborted_.ok()) return;
    aborted_ = reason;
    ended.swap(parked_);
  }
  for (const ParkedPull& parked : ended) parked.done(reason);
}

absl::Status ParameterShard::SlotState::CheckCount(std::span<const float> values,
                                                   const std::string& what) const {
  if (static_cast<int64_t>(values.size()) == slot_.range.count) return absl::OkStatus();
  return absl::InvalidArgumentError(absl::StrCat("slot ", slot_.index, " has ",
                                                 slot_.range.count, " elements here, ",
                                                 what, " carries ", values.size()));
}

void ParameterShard::SlotState::AnswerLocked(const PullInfo& pull,
                                             const CopyAnswer& copy) {
  traffic_->CountOut(pull.step == 0 ? TrafficKind::kInitial : TrafficKind::kStep,
                     Bytes(parameters_));
  copy({.version = version_, .parameters = parameters_});
}

std::vector<ParameterShard::Done> ParameterShard::SlotState::AnswerParkedLocked() {
  std::vector<Done> answered;
  std::vector<ParkedPull> waiting;
  for (ParkedPull& parked : parked_) {
    if (MayPullLocked(parked.pull)) {
      AnswerLocked(parked.pull, parked.copy);
      answered.push_back(std::move(parked.done));
    } else {
      waiting.push_back(std::move(parked));
    }
  }
  parked_ = std::move(waiting);
  return answered;
}

// The round's mean goes from the sum straight into the optimizer, one cached block after
// the other; contributions and parameters are read once.
void ParameterShard::SlotState::CloseRoundLocked(const StepConstants& constants) {
  std::vector<std::span<const float>> terms;
  terms.reserve(round_.size());
  for (const Contribution& contribution : round_) terms.push_back(contribution.gradient);
  const std::span<float> parameters(parameters_);
  SliceOptimizer* const optimizer = &optimizer_;
  fold_.Mean(terms, [&](int64_t begin, std::span<const float> mean) {
    optimizer->Apply(constants, begin, parameters.subspan(begin, mean.size()), mean);
  });
  for (Contribution& contribution : round_) contribution = {};
  ++version_;
  if (on_update_) {
    on_update_({.slot = slot_.index,
                .version = version_,
                .contributions = static_cast<int>(terms.size())});
  }
}

std::string ParameterShard::SlotState::AwaitedLocked() const {
  if (!initialized_) return "waits for worker 0 to initialize it";
  return absl::StrCat("is at version ", version_, " and waits for the push of step ",
                      version_, " by rank ",
                      absl::StrJoin(clocks_.Missing(version_), ", "));
}

ParameterShard::Options ParameterShard::OptionsFor(const BucketPlan& buckets,
                                                   const SlotPlan& slots, int server) {
  Options options;
  for (const int slot : slots.of_server[server]) {
    options.slots.push_back(slots.slots[slot]);
  }
  for (const Bucket& bucket : buckets.buckets) {
    options.bucket_ranges.push_back(bucket.range);
  }
  return options;
}

ParameterShard::ParameterShard(Options options,
                               std::unique_ptr<const ConsistencyPolicy> policy)
    : workers_(options.workers), policy_(std::move(policy)) {
  CHECK_GT(workers_, 0);
  CHECK(options.constants != nullptr);
  for (const Slot& slot : options.slots) {
    slots_[slot.index] =
        std::make_unique<SlotState>(slot, options, policy_.get(), &traffic_);
  }
}

ParameterShard::~ParameterShard() {
  Abort(absl::CancelledError("the parameter shard has ended"));
}

absl::Status ParameterShard::Initialize(int slot, std::span<const float> parameters) {
  ASSIGN_OR_RETURN(SlotState* const state, Find(slot, /*rank=*/0, /*step=*/0));
  return state->Initialize(parameters);
}

absl::Status ParameterShard::Push(const PushInfo& push, Contribution contribution) {
  ASSIGN_OR_RETURN(SlotState* const state, Find(push.slot, push.rank, push.step));
  return state->Push(push, std::move(contribution));
}

PullTicket ParameterShard::Pull(const PullInfo& pull, CopyAnswer copy, Done done) {
  const absl::StatusOr<SlotState*> state = Find(pull.slot, pull.rank, pull.step);
  if (state.ok()) return (*state)->Pull(pull, std::move(copy), std::move(done));
  done(state.status());
  return {.slot = pull.slot, .id = 0};
}

void ParameterShard::CancelPull(const PullTicket& ticket) {
  if (const auto found = slots_.find(ticket.slot); found != slots_.end()) {
    found->second->CancelPull(ticket.id);
  }
}

void ParameterShard::Abort(const absl::Status& reason) {
  CHECK(!reason.ok());
  absl::Status first;
  {
    MutexLock lock(&mutex_);
    if (abort_reason_.ok()) abort_reason_ = reason;
    first = abort_reason_;
  }
  for (const auto& [index, state] : slots_) state->Abort(first);
}

std::string ParameterShard::Awaited() const {
  for (const auto& [index, state] : slots_) {
    if (std::string awaited = state->Awaited(); !awaited.empty()) return awaited;
  }
  return "";
}

int64_t ParameterShard::first_version() const {
  int64_t first = std::numeric_limits<int64_t>::max();
  for (const auto& [index, state] : slots_) first = std::min(first, state->version());
  return slots_.empty() ? 0 : first;
}

int64_t ParameterShard::parked_pulls() const {
  int64_t count = 0;
  for (const auto& [index, state] : slots_) count += state->parked_pulls();
  return count;
}

absl::StatusOr<ParameterShard::SlotState*> ParameterShard::Find(int slot, int rank,
                                                                int64_t step) const {
  const auto found = slots_.find(slot);
  if (found == slots_.end()) {
    std::vector<int> here;
    for (const auto& [index, state] : slots_) here.push_back(index);
    return absl::InvalidArgumentError(absl::StrCat(
        "rank ", rank, " asks for slot ", slot,
        ", the slots here are: ", here.empty() ? "none" : absl::StrJoin(here, ", ")));
  }
  if (rank < 0 || rank >= workers_) {
    return absl::InvalidArgumentError(absl::StrCat(
        "rank ", rank, " asks for slot ", slot, ", which serves ", workers_, " workers"));
  }
  if (step < 0) {
    return absl::InvalidArgumentError(absl::StrCat(
        "rank ", rank, " names step ", step, " for slot ", slot, ", steps start at 0"));
  }
  return found->second.get();
}

}  // namespace psring
