#include "server/parameter_shard.h"

#include <algorithm>
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

// An error names no more slots than fit into a line.
constexpr size_t kSlotsInError = 16;

int64_t BytesOf(int64_t count) { return count * int64_t{sizeof(float)}; }

}  // namespace

// One slot: its parameters and optimizer state, its open round, its parked pulls. Its
// methods hold the lock only inside; Done callbacks run after it is released.
class ParameterShard::SlotState {
 public:
  SlotState(const Slot& slot, const Options& options, const ConsistencyPolicy* policy,
            LinkCounters* traffic, std::shared_ptr<BufferGauge> parameter_memory)
      : slot_(slot),
        policy_(policy),
        traffic_(traffic),
        fold_(options.order, slot.range, options.bucket_ranges[slot.bucket],
              options.workers),
        clocks_(options.workers),
        parameters_(std::move(parameter_memory)),
        round_(options.workers),
        optimizer_(options.optimizer, slot.range.count) {}

  absl::Status Initialize(const FloatPieces& parameters);
  absl::Status Push(const PushInfo& push, Contribution contribution);
  PullTicket Pull(const PullInfo& pull, PullDone done);
  void CancelPull(int64_t id);
  void Abort(const absl::Status& reason);
  int64_t parked_pulls() const {
    MutexLock lock(&mutex_);
    return static_cast<int64_t>(parked_.size());
  }

 private:
  struct ParkedPull {
    int64_t id = 0;
    PullInfo pull;
    PullDone done;
  };
  // A pull whose time has come, to be done when the lock has been let go of.
  struct AnsweredPull {
    PullDone done;
    PullAnswer answer;
  };

  absl::Status CheckCount(const FloatPieces& values, const std::string& what) const;
  bool MayPullLocked(const PullInfo& pull) const ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_) {
    return initialized_ && policy_->MayPull(pull.step, clocks_, version_);
  }
  PullAnswer AnswerLocked(const PullInfo& pull) ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  // Takes the parked pulls that may now proceed.
  std::vector<AnsweredPull> AnswerParkedLocked() ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  void CloseRoundLocked() ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  std::string AwaitedLocked() const ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);

  const Slot slot_;
  const ConsistencyPolicy* const policy_;
  LinkCounters* const traffic_;
  const RoundFold fold_;

  mutable Mutex mutex_;
  absl::Status aborted_ ABSL_GUARDED_BY(mutex_);  // OK until aborted.
  bool initialized_ ABSL_GUARDED_BY(mutex_) = false;
  int64_t version_ ABSL_GUARDED_BY(mutex_) = 0;
  WorkerClocks clocks_ ABSL_GUARDED_BY(mutex_);
  SlotParameters parameters_ ABSL_GUARDED_BY(mutex_);
  std::vector<Contribution> round_ ABSL_GUARDED_BY(mutex_);  // The open one's, by rank.
  SliceOptimizer optimizer_ ABSL_GUARDED_BY(mutex_);
  std::vector<ParkedPull> parked_ ABSL_GUARDED_BY(mutex_);  // In order of arrival.
  int64_t last_pull_id_ ABSL_GUARDED_BY(mutex_) = 0;
};

absl::Status ParameterShard::SlotState::Initialize(const FloatPieces& parameters) {
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
    answered = AnswerParkedLocked();
  }
  for (AnsweredPull& pull : answered) pull.done(std::move(pull.answer));
  return absl::OkStatus();
}

absl::Status ParameterShard::SlotState::Push(const PushInfo& push,
                                             Contribution contribution) {
  RETURN_IF_ERROR(
      CheckCount(contribution.gradient, absl::StrCat("the push of rank ", push.rank)));
  std::vector<AnsweredPull> answered;
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
    traffic_->CountIn(TrafficKind::kStep, BytesOf(contribution.gradient.count()));
    if (action == PushAction::kIgnore) return absl::OkStatus();
    clocks_.RecordPush(push.rank, push.step);
    round_[push.rank] = std::move(contribution);
    if (action == PushAction::kHold) return absl::OkStatus();
    CloseRoundLocked();
    answered = AnswerParkedLocked();
  }
  for (AnsweredPull& pull : answered) pull.done(std::move(pull.answer));
  return absl::OkStatus();
}

PullTicket ParameterShard::SlotState::Pull(const PullInfo& pull, PullDone done) {
  absl::StatusOr<PullAnswer> answer;
  {
    MutexLock lock(&mutex_);
    if (!aborted_.ok()) {
      answer = aborted_;
    } else if (MayPullLocked(pull)) {
      answer = AnswerLocked(pull);
    } else {
      const int64_t id = ++last_pull_id_;
      parked_.push_back({.id = id, .pull = pull, .done = std::move(done)});
      return {.slot = slot_.index, .id = id};
    }
  }
  done(std::move(answer));
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

absl::Status ParameterShard::SlotState::CheckCount(const FloatPieces& values,
                                                   const std::string& what) const {
  if (values.count() == slot_.range.count) return absl::OkStatus();
  return absl::InvalidArgumentError(absl::StrCat("slot ", slot_.index, " has ",
                                                 slot_.range.count, " elements here, ",
                                                 what, " carries ", values.count()));
}

PullAnswer ParameterShard::SlotState::AnswerLocked(const PullInfo& pull) {
  traffic_->CountOut(pull.step == 0 ? TrafficKind::kInitial : TrafficKind::kStep,
                     BytesOf(slot_.range.count));
  return {.version = version_,
          .parameters = parameters_.values(),
          .owner = parameters_.Share()};
}

std::vector<ParameterShard::SlotState::AnsweredPull>
ParameterShard::SlotState::AnswerParkedLocked() {
  std::vector<AnsweredPull> answered;
  std::vector<ParkedPull> waiting;
  for (ParkedPull& parked : parked_) {
    if (MayPullLocked(parked.pull)) {
      answered.push_back(
          {.done = std::move(parked.done), .answer = AnswerLocked(parked.pull)});
    } else {
      waiting.push_back(std::move(parked));
    }
  }
  parked_ = std::move(waiting);
  return answered;
}

// The round's mean goes from the sum straight into the optimizer, one cached block after
// the other; contributions and parameters are read once.
void ParameterShard::SlotState::CloseRoundLocked() {
  std::vector<FloatPieces> terms;
  terms.reserve(round_.size());
  for (Contribution& contribution : round_) {
    terms.push_back(std::move(contribution.gradient));
  }
  const std::span<float> parameters = parameters_.MakeWritable();
  SliceOptimizer* const optimizer = &optimizer_;
  fold_.Mean(terms, [&](int64_t begin, std::span<const float> mean) {
    optimizer->Apply(begin, parameters.subspan(begin, mean.size()), mean);
  });
  for (Contribution& contribution : round_) contribution = {};
  ++version_;
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
    : workers_(options.workers),
      policy_(std::move(policy)),
      parameter_memory_(std::make_shared<BufferGauge>()) {
  CHECK_GT(workers_, 0);
  for (const Slot& slot : options.slots) {
    slots_[slot.index] = std::make_unique<SlotState>(slot, options, policy_.get(),
                                                     &traffic_, parameter_memory_);
    largest_slot_bytes_ = std::max(largest_slot_bytes_, BytesOf(slot.range.count));
  }
}

ParameterShard::~ParameterShard() {
  Abort(absl::CancelledError("the parameter shard has ended"));
}

absl::Status ParameterShard::Initialize(int slot, const FloatPieces& parameters) {
  ASSIGN_OR_RETURN(SlotState* const state, Find(slot, /*rank=*/0, /*step=*/0));
  return state->Initialize(parameters);
}

absl::Status ParameterShard::Push(const PushInfo& push, Contribution contribution) {
  ASSIGN_OR_RETURN(SlotState* const state, Find(push.slot, push.rank, push.step));
  return state->Push(push, std::move(contribution));
}

PullTicket ParameterShard::Pull(const PullInfo& pull, PullDone done) {
  const absl::StatusOr<SlotState*> state = Find(pull.slot, pull.rank, pull.step);
  if (state.ok()) return (*state)->Pull(pull, std::move(done));
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
    for (const auto& [index, state] : slots_) {
      if (here.size() < kSlotsInError) here.push_back(index);
    }
    return absl::InvalidArgumentError(absl::StrCat(
        "rank ", rank, " asks for slot ", slot,
        ", the slots here are: ", here.empty() ? "none" : absl::StrJoin(here, ", "),
        here.size() < slots_.size() ? ", ..." : ""));
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
