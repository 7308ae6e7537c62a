#include "tests/in_process_parameter_channel.h"

#include <algorithm>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "common/errors.h"
#include "glog/logging.h"

namespace psring {

InProcessParameterChannel::InProcessParameterChannel(
    int rank, int server, std::shared_ptr<ParameterShard> shard, const WireType& wire)
    : rank_(rank), server_(server), shard_(std::move(shard)), decoder_(wire) {}

InProcessParameterChannel::~InProcessParameterChannel() {
  Abort(absl::CancelledError("the channel has ended"));
  MutexLock lock(&mutex_);
  while (!pulls_.empty()) idle_.Wait(&mutex_);
}

void InProcessParameterChannel::Initialize(const Slot& slot,
                                           std::span<const float> parameters, Done done) {
  absl::Status status = aborted();
  if (status.ok()) {
    status = Named(shard_->Initialize(slot.index, parameters),
                   absl::StrCat("the initialization of slot ", slot.index));
  }
  done(status);
}

void InProcessParameterChannel::Pull(const Slot& slot, int64_t step,
                                     std::span<float> parameters, PullDone done) {
  Pull({.rank = rank_, .step = step, .slot = slot.index}, parameters,
       absl::StrCat("the pull of slot ", slot.index, " for step ", step),
       std::move(done));
}

void InProcessParameterChannel::Exchange(const Slot& slot, int64_t step, int64_t version,
                                         Bytes gradient, std::span<float> parameters,
                                         PullDone done) {
  const std::string what =
      absl::StrCat("the exchange of slot ", slot.index, ", step ", step);
  const absl::Status pushed =
      Push({.rank = rank_, .step = step, .slot = slot.index, .version = version},
           gradient, what);
  if (!pushed.ok()) {
    done(pushed);
    return;
  }
  Pull({.rank = rank_, .step = step + 1, .slot = slot.index}, parameters, what,
       std::move(done));
}

absl::Status InProcessParameterChannel::Push(const PushInfo& push, Bytes gradient,
                                             const std::string& what) {
  if (const absl::Status ours = aborted(); !ours.ok()) return ours;
  // The shard keeps the contribution for longer than the caller keeps the gradient.
  const auto copy =
      std::make_shared<const std::vector<std::byte>>(gradient.begin(), gradient.end());
  absl::StatusOr<Contribution> contribution =
      decoder_.Decode({Bytes(*copy)}, copy, shard_->ElementsOf(push.slot));
  if (!contribution.ok()) return Named(contribution.status(), what);
  return Named(shard_->Push(push, *std::move(contribution)), what);
}

void InProcessParameterChannel::Pull(const PullInfo& pull, std::span<float> parameters,
                                     const std::string& what, PullDone done) {
  int64_t key = 0;
  absl::Status status;
  {
    MutexLock lock(&mutex_);
    status = aborted_;
    if (status.ok()) {
      key = ++last_key_;
      pulls_[key] = {};
    }
  }
  if (!status.ok()) {
    done(status);
    return;
  }
  const PullTicket ticket =
      shard_->Pull(pull, [this, key, what, parameters, done = std::move(done)](
                             const absl::StatusOr<PullAnswer>& answer) {
        if (answer.ok()) {
          const std::span<const float> values = answer->parameters.values;
          CHECK_EQ(values.size(), parameters.size());
          std::copy(values.begin(), values.end(), parameters.begin());
          done(Pulled{.version = answer->parameters.version,
                      .step = answer->step,
                      .finished = answer->finished,
                      .parked = answer->parked,
                      .released_by = answer->released_by,
                      .working = answer->working});
        } else {
          const absl::Status ours = aborted();
          done(ours.ok() ? Named(answer.status(), what) : ours);
        }
        MutexLock lock(&mutex_);
        pulls_.erase(key);
        if (pulls_.empty()) idle_.NotifyAll();
      });
  if (!ticket.parked()) return;
  bool missed_abort = false;
  {
    MutexLock lock(&mutex_);
    const auto parked = pulls_.find(key);
    if (parked == pulls_.end()) return;  // Answered meanwhile.
    parked->second = ticket;
    missed_abort = !aborted_.ok();
  }
  if (missed_abort) shard_->CancelPull(ticket);
}

void InProcessParameterChannel::Snapshot(const Slot& slot, int64_t step,
                                         std::span<float> parameters, SnapshotDone done) {
  if (const absl::Status ours = aborted(); !ours.ok()) {
    done(ours);
    return;
  }
  const absl::StatusOr<SlotSnapshot> snapshot =
      shard_->Snapshot({.rank = rank_, .step = step, .slot = slot.index});
  if (!snapshot.ok()) {
    done(Named(snapshot.status(),
               absl::StrCat("the snapshot of slot ", slot.index, " after step ", step)));
    return;
  }
  const std::span<const float> values = snapshot->parameters.values;
  CHECK_EQ(values.size(), parameters.size());
  std::copy(values.begin(), values.end(), parameters.begin());
  done(SnapshotInfo{.version = snapshot->parameters.version, .time = snapshot->time});
}

void InProcessParameterChannel::Leave(Done done) {
  absl::Status status = aborted();
  if (status.ok()) status = Named(shard_->Leave(rank_), "leaving");
  done(status);
}

void InProcessParameterChannel::Abort(const absl::Status& reason) {
  CHECK(!reason.ok());
  std::map<int64_t, PullTicket> pulls;
  {
    MutexLock lock(&mutex_);
    if (!aborted_.ok()) return;
    aborted_ = reason;
    pulls = pulls_;
  }
  for (const auto& [key, ticket] : pulls) shard_->CancelPull(ticket);
}

absl::Status InProcessParameterChannel::aborted() {
  MutexLock lock(&mutex_);
  return aborted_;
}

absl::Status InProcessParameterChannel::Named(const absl::Status& status,
                                              const std::string& what) const {
  return Annotate(status, absl::StrCat("server ", server_, " (in process): ", what));
}

}  // namespace psring
