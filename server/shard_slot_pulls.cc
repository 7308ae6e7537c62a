// The pulls of a shard's slot: when they are answered, and with what.
#include <cstdint>
#include <optional>
#include <string>
#include <utility>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "common/errors.h"
#include "glog/logging.h"
#include "server/parked_pulls.h"
#include "server/shard_slot.h"

namespace psring {
namespace {

int64_t BytesOf(int64_t count) { return count * int64_t{sizeof(float)}; }

}  // namespace

PullTicket ShardSlot::Pull(const PullInfo& asked, PullDone done) {
  PullInfo pull = asked;
  // A worker's first pull names no step: it goes on from where the slot is.
  if (pull.step == 0) pull.step = first_steps_[pull.rank];
  absl::StatusOr<PullAnswer> answer;
  {
    MutexLock lock(&mutex_);
    if (!aborted_.ok()) {
      answer = aborted_;
    } else if (const auto version = VersionForLocked(pull); !version) {
      return {.slot = slot_.index,
              .id = parked_.Park(pull, time_->Elapsed(), std::move(done))};
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
  ParkedPulls::List cancelled;
  absl::Status status;
  {
    MutexLock lock(&mutex_);
    cancelled = parked_.Take(id);
    if (cancelled.empty()) return;
    const PullInfo& pull = cancelled.front().pull;
    status = PeerLostError(absl::StrCat(
        "slot ", slot_.index, ", pulled by rank ", pull.rank, " for step ", pull.step,
        ", is at version ", version_, " and waits for ", AwaitedLocked(pull)));
  }
  Finish(std::move(cancelled), status);
}

std::optional<int64_t> ShardSlot::VersionForLocked(const PullInfo& pull) const {
  if (!initialized_ || clocks_.clock(pull.rank) < pull.step) return std::nullopt;
  if (const auto version = policy_->OnPull(pull, clocks_, version_)) return version;
  // Of a run that is over the policy might wait for more.
  if (steps_ > 0 && counted_ >= workers_ * steps_) return version_;
  return std::nullopt;
}

PullAnswer ShardSlot::AnswerLocked(const PullInfo& pull, int64_t version) {
  const bool first = pull.step == first_steps_[pull.rank];
  traffic_->CountOut(first ? TrafficKind::kInitial : TrafficKind::kStep,
                     BytesOf(slot_.range.count), pull.rank);
  PullAnswer answer;
  if (version == version_) {
    answer.parameters = CurrentLocked();
    answer.working = working_;
  } else {
    // It has been there, so nobody waited for it.
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

ParkedPulls::List ShardSlot::AnswerParkedLocked(int rank) {
  const auto is_due = [&](ParkedPull& parked) ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_) {
    const std::optional<int64_t> version = VersionForLocked(parked.pull);
    if (!version) return false;
    parked.answer = AnswerLocked(parked.pull, *version);
    parked.answer.parked = time_->Elapsed() - parked.since;
    parked.answer.released_by = rank;
    return true;
  };
  return parked_.TakeDue(is_due);
}

void ShardSlot::Finish(ParkedPulls::List pulls, const absl::Status& error) {
  if (pulls.empty()) return;
  for (ParkedPull& pull : pulls) {
    // Let go of here, because what ends with it may take a lock.
    const PullDone done = std::exchange(pull.done, nullptr);
    PullAnswer answer = std::exchange(pull.answer, PullAnswer());
    if (error.ok()) {
      done(std::move(answer));
    } else {
      done(error);
    }
  }
  MutexLock lock(&mutex_);
  parked_.GiveBack(std::move(pulls));
}

std::string ShardSlot::Awaited() const {
  MutexLock lock(&mutex_);
  if (parked_.parked().empty()) return "";
  return absl::StrCat(AwaitedLocked(parked_.parked().front().pull), " (slot ",
                      slot_.index, ", at version ", version_, ")");
}

std::string ShardSlot::AwaitedLocked(const PullInfo& pull) const {
  if (!initialized_) return "worker 0 to initialize it";
  if (clocks_.clock(pull.rank) < pull.step) {
    return absl::StrCat("worker ", pull.rank, "'s own push");
  }
  return absl::StrCat("the push of worker ",
                      absl::StrJoin(policy_->Awaited(pull, clocks_, version_), ", "));
}

int64_t ShardSlot::parked_pulls() const {
  MutexLock lock(&mutex_);
  return static_cast<int64_t>(parked_.parked().size());
}

}  // namespace psring
