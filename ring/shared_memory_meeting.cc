#include "ring/shared_memory_meeting.h"

#include <sched.h>

#include <algorithm>
#include <utility>

#include "absl/strings/str_cat.h"
#include "common/errors.h"
#include "common/status_macros.h"
#include "ring/futex.h"

#ifdef __x86_64__
#include <immintrin.h>
#endif

// How ranks meet.
//
// To arrive at its p-th point a rank stores p as its phase; to wait is to see every other
// rank's phase at p or later. As long as they come soon, that is one cache line from each
// of the others and nothing else.
//
// Who waits longer counts itself among the sleepers of a rank that is missing and sleeps
// on its phase; who arrives looks for sleepers after it has stored its phase. Since both
// do so in this order and the kernel compares the phase before it lets anyone sleep, no
// wake-up is lost. A sleeper wakes up by itself from time to time to look for ranks that
// are dead or have given up: these change no phase.

namespace psring {
namespace {

using Clock = std::chrono::steady_clock;

// Between looks at what may be wrong, asleep or not.
constexpr Clock::duration kCheckInterval = std::chrono::milliseconds(100);
// How long to watch before sleeping. To sleep and be woken costs some 10 us, and about
// as much on the rank that wakes.
constexpr auto kWatchTime = std::chrono::microseconds(50);
// How long before letting others run: one of them may be who is watched for.
constexpr auto kFirstWatchTime = std::chrono::microseconds(5);

void Pause() {
#ifdef __x86_64__
  _mm_pause();
#endif
}

int AvailableProcessors() {
  cpu_set_t set;
  return sched_getaffinity(0, sizeof(set), &set) == 0 ? CPU_COUNT(&set) : 1;
}

// Phases wrap around, and ranks are never far apart.
bool IsAtLeast(uint32_t phase, uint32_t wanted) {
  return static_cast<int32_t>(phase - wanted) >= 0;
}

}  // namespace

SharedMemoryMeeting::SharedMemoryMeeting(std::shared_ptr<SharedMemorySegment> segment,
                                         absl::Duration stall_timeout,
                                         SharedMemoryWait wait)
    : segment_(std::move(segment)),
      stall_timeout_(stall_timeout),
      wait_(wait),
      crowded_(segment_->ranks() > AvailableProcessors()) {}

SharedMemoryMeeting::~SharedMemoryMeeting() { segment_->Leave(); }

absl::Status SharedMemoryMeeting::Begin(const OperationHeader& header, int64_t position) {
  turn_ = turn_ ^ 1;
  SharedMemoryTurn& own = segment_->member(segment_->rank()).turns[turn_];
  own.header = header;
  own.position = position;
  RETURN_IF_ERROR(Meet());
  for (int rank = 0; rank < segment_->ranks(); ++rank) {
    const OperationHeader& theirs = segment_->member(rank).turns[turn_].header;
    if (theirs != header) {
      return CheckSameOperation(theirs, header, segment_->NameOf(rank),
                                segment_->NameOf(segment_->rank()));
    }
  }
  return absl::OkStatus();
}

absl::Status SharedMemoryMeeting::Meet() {
  if (aborted_) {
    MutexLock lock(&mutex_);
    return abort_reason_;
  }
  SharedMemoryTurn& own = segment_->member(segment_->rank()).turns[turn_];
  const uint32_t phase = phase_ + 1;
  phase_.store(phase, std::memory_order_relaxed);
  own.phase.store(phase);
  if (own.sleepers.load() > 0) FutexWakeAll(own.phase);
  return AwaitOthers(phase);
}

bool SharedMemoryMeeting::HasArrived(int rank, uint32_t phase) const {
  const SharedMemoryTurn& turn = segment_->member(rank).turns[turn_];
  return IsAtLeast(turn.phase.load(std::memory_order_acquire), phase);
}

absl::Status SharedMemoryMeeting::AwaitOthers(uint32_t phase) {
  for (int rank = 0; rank < segment_->ranks(); ++rank) {
    if (HasArrived(rank, phase) || Watch(rank, phase)) continue;
    waiting_ = true;
    const absl::Status status = AwaitPatiently(phase);
    waiting_ = false;
    return status;
  }
  return absl::OkStatus();
}

bool SharedMemoryMeeting::Watch(int rank, uint32_t phase) {
  if (!crowded_ && WatchUntil(rank, phase, Clock::now() + kFirstWatchTime)) return true;
  if (yields_.Until([&] { return HasArrived(rank, phase); })) return true;
  return !crowded_ && WatchUntil(rank, phase, Clock::now() + kWatchTime);
}

bool SharedMemoryMeeting::WatchUntil(int rank, uint32_t phase,
                                     Clock::time_point end) const {
  do {
    // A look at the clock costs as much as some looks at the phase.
    for (int i = 0; i < 20; ++i) {
      Pause();
      if (HasArrived(rank, phase)) return true;
    }
    // The one that is waited for may need this processor.
    if (crowded_) sched_yield();
  } while (Clock::now() < end);
  return false;
}

absl::Status SharedMemoryMeeting::AwaitPatiently(uint32_t phase) {
  const Clock::time_point give_up = SteadyDeadline(stall_timeout_);
  for (int rank = 0; rank < segment_->ranks(); ++rank) {
    while (!HasArrived(rank, phase)) {
      // What is wrong elsewhere does not matter to who has all that it waits for.
      const absl::Status fault = FindFault(phase);
      if (!fault.ok() && !HasArrived(rank, phase)) return fault;
      const Clock::time_point now = Clock::now();
      if (now >= give_up) {
        return LostError(
            Missing(phase),
            absl::StrCat("did not come within ", absl::FormatDuration(stall_timeout_)));
      }
      const Clock::duration patience = std::min(give_up - now, kCheckInterval);
      if (wait_ == SharedMemoryWait::kSpin) {
        WatchUntil(rank, phase, now + patience);
      } else {
        SleepUntilMoved(rank, phase, absl::FromChrono(patience));
      }
    }
  }
  return absl::OkStatus();
}

absl::Status SharedMemoryMeeting::FindFault(uint32_t phase) const {
  if (aborted_) {
    MutexLock lock(&mutex_);
    return abort_reason_;
  }
  for (int rank = 0; rank < segment_->ranks(); ++rank) {
    switch (segment_->member(rank).state.load()) {
      case MemberState::kFailed:
        return segment_->FailureOf(rank);
      case MemberState::kLeft:
        if (!HasArrived(rank, phase))
          return LostError(segment_->NameOf(rank), "has left");
        break;
      default:
        if (rank != segment_->rank() && segment_->IsLost(rank) &&
            !HasArrived(rank, phase)) {
          return LostError(segment_->NameOf(rank), "was lost: its process has ended");
        }
    }
  }
  return absl::OkStatus();
}

void SharedMemoryMeeting::SleepUntilMoved(int rank, uint32_t phase,
                                          absl::Duration timeout) const {
  SharedMemoryTurn& turn = segment_->member(rank).turns[turn_];
  turn.sleepers.fetch_add(1);
  const uint32_t seen = turn.phase.load();
  if (!IsAtLeast(seen, phase)) FutexWait(turn.phase, seen, timeout);
  turn.sleepers.fetch_sub(1);
}

absl::Status SharedMemoryMeeting::LostError(const std::string& who,
                                            absl::string_view what) const {
  const SharedMemoryTurn& own = segment_->member(segment_->rank()).turns[turn_];
  return PeerLostError(absl::StrCat(Describe(own.header), ": ", who, " ", what));
}

std::string SharedMemoryMeeting::Missing(uint32_t phase) const {
  std::string missing;
  for (int rank = 0; rank < segment_->ranks(); ++rank) {
    if (HasArrived(rank, phase)) continue;
    absl::StrAppend(&missing, missing.empty() ? "" : ", ", segment_->NameOf(rank));
  }
  return missing;
}

std::string SharedMemoryMeeting::Awaited() const {
  return waiting_ ? Missing(phase_) : "";
}

void SharedMemoryMeeting::Abort(const absl::Status& reason) {
  {
    MutexLock lock(&mutex_);
    if (aborted_) return;
    abort_reason_ = reason;
    aborted_ = true;
  }
  segment_->Fail(reason);
  // Whomever they wait for.
  for (int rank = 0; rank < segment_->ranks(); ++rank) {
    for (const SharedMemoryTurn& turn : segment_->member(rank).turns) {
      FutexWakeAll(turn.phase);
    }
  }
}

}  // namespace psring
