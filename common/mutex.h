// std::mutex and std::condition_variable with clang's thread-safety annotations.
//
// Not absl::Mutex: Debian's Abseil is not built for ThreadSanitizer, which then reports
// races that are none.
#ifndef PSRING_COMMON_MUTEX_H_
#define PSRING_COMMON_MUTEX_H_

#include <algorithm>
#include <chrono>
#include <condition_variable>
#include <mutex>

#include "absl/base/thread_annotations.h"
#include "absl/time/time.h"

namespace psring {

class ABSL_LOCKABLE Mutex {
 public:
  void Lock() ABSL_EXCLUSIVE_LOCK_FUNCTION() { mutex_.lock(); }
  void Unlock() ABSL_UNLOCK_FUNCTION() { mutex_.unlock(); }

 private:
  friend class CondVar;
  std::mutex mutex_;
};

class ABSL_SCOPED_LOCKABLE MutexLock {
 public:
  explicit MutexLock(Mutex* mutex) ABSL_EXCLUSIVE_LOCK_FUNCTION(mutex) : mutex_(mutex) {
    mutex_->Lock();
  }
  ~MutexLock() ABSL_UNLOCK_FUNCTION() { mutex_->Unlock(); }
  MutexLock(const MutexLock&) = delete;
  MutexLock& operator=(const MutexLock&) = delete;

 private:
  Mutex* const mutex_;
};

class CondVar {
 public:
  // Callers hold the mutex and wait in a loop on their own condition.
  void Wait(Mutex* mutex) ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex) {
    std::unique_lock<std::mutex> lock(mutex->mutex_, std::adopt_lock);
    condition_.wait(lock);
    lock.release();
  }
  // True when the deadline passed without a notification.
  bool WaitUntil(Mutex* mutex, std::chrono::steady_clock::time_point deadline)
      ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex) {
    std::unique_lock<std::mutex> lock(mutex->mutex_, std::adopt_lock);
    const bool timed_out =
        condition_.wait_until(lock, deadline) == std::cv_status::timeout;
    lock.release();
    return timed_out;
  }
  void NotifyOne() { condition_.notify_one(); }
  void NotifyAll() { condition_.notify_all(); }

 private:
  std::condition_variable condition_;
};

// The point on a clock that lies `timeout` from now; capped at a year, so that an
// infinite timeout does not overflow.
template <typename Clock>
typename Clock::time_point DeadlineOn(absl::Duration timeout) {
  return Clock::now() +
         absl::ToChronoNanoseconds(std::min(timeout, absl::Hours(24 * 365)));
}
inline std::chrono::steady_clock::time_point SteadyDeadline(absl::Duration timeout) {
  return DeadlineOn<std::chrono::steady_clock>(timeout);
}
// For gRPC, whose deadlines are points on this clock.
inline std::chrono::system_clock::time_point SystemDeadline(absl::Duration timeout) {
  return DeadlineOn<std::chrono::system_clock>(timeout);
}

}  // namespace psring

#endif  // PSRING_COMMON_MUTEX_H_
