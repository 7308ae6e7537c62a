// How ranks that share memory wait for each other.
#ifndef PSRING_RING_SHARED_MEMORY_MEETING_H_
#define PSRING_RING_SHARED_MEMORY_MEETING_H_

#include <atomic>
#include <chrono>
#include <cstdint>
#include <memory>
#include <string>

#include "absl/status/status.h"
#include "absl/strings/string_view.h"
#include "absl/time/time.h"
#include "common/mutex.h"
#include "ring/operation_header.h"
#include "ring/shared_memory_segment.h"
#include "ring/yields.h"

namespace psring {

enum class SharedMemoryWait {
  // Watches the others' words for some microseconds, then sleeps.
  kSleep,
  // Never sleeps: for processors that have nothing else to do.
  kSpin,
};

// One rank's side of the points at which all ranks meet: nobody passes one before all
// have arrived, and what a rank wrote before it arrived is seen by all who pass. No
// system call while nobody sleeps.
//
// One thread runs operations: Begin, then Meet any number of times. Any thread calls
// Abort and Awaited. Errors are final, and the caller passes them to Abort, so that they
// reach the others word by word:
//   kUnavailable: those whom the message names were lost, have left, or did not arrive
//     within the stall timeout.
//   kFailedPrecondition: a rank is at another operation; the message shows both.
//   the reason given to Abort.
// They come within 0.2 s of their cause, or the stall timeout, to all who wait.
class SharedMemoryMeeting {
 public:
  // `stall_timeout`: how long a rank waits at one point; longer than the slowest may lag
  // behind the fastest.
  SharedMemoryMeeting(std::shared_ptr<SharedMemorySegment> segment,
                      absl::Duration stall_timeout, SharedMemoryWait wait);
  // Tells the others that this rank takes part no longer.
  ~SharedMemoryMeeting();

  // Meets the others at the start of an operation, where all compare their headers. This
  // rank's values lie at `position` in the segment, or elsewhere if < 0.
  absl::Status Begin(const OperationHeader& header, int64_t position);
  // Meets them within it.
  absl::Status Meet();

  // What `rank` gave as its position, from Begin until the next.
  int64_t PositionOf(int rank) const {
    return segment_->member(rank).turns[turn_].position;
  }

  // Begin and Meet, in flight and to come, fail here and on the others.
  void Abort(const absl::Status& reason);

  // Those that Begin or Meet waits for, for messages; empty while it waits for nobody.
  std::string Awaited() const;

 private:
  using Clock = std::chrono::steady_clock;

  bool HasArrived(int rank, uint32_t phase) const;
  absl::Status AwaitOthers(uint32_t phase);
  // Watch until `rank` has arrived (true), or for a while.
  bool Watch(int rank, uint32_t phase);
  bool WatchUntil(int rank, uint32_t phase, Clock::time_point end) const;
  absl::Status AwaitPatiently(uint32_t phase);
  // OK: nothing is known that keeps the others from arriving.
  absl::Status FindFault(uint32_t phase) const;
  void SleepUntilMoved(int rank, uint32_t phase, absl::Duration timeout) const;
  absl::Status LostError(const std::string& who, absl::string_view what) const;
  std::string Missing(uint32_t phase) const;

  const std::shared_ptr<SharedMemorySegment> segment_;
  const absl::Duration stall_timeout_;
  const SharedMemoryWait wait_;
  // Whether every rank can have a processor: if not, watching keeps others from arriving.
  const bool crowded_;

  Yields yields_;

  // The thread that runs operations writes them, Awaited reads them.
  std::atomic<uint32_t> phase_{0};  // Points arrived at.
  std::atomic<int> turn_{1};        // Of the current operation.
  std::atomic<bool> waiting_{false};

  std::atomic<bool> aborted_{false};  // True only after abort_reason_ has been set.
  mutable Mutex mutex_;
  absl::Status abort_reason_ ABSL_GUARDED_BY(mutex_);
};

}  // namespace psring

#endif  // PSRING_RING_SHARED_MEMORY_MEETING_H_
