// For tests: a clock that stands still until it is told.
#ifndef PSRING_COMMON_TEST_CLOCK_H_
#define PSRING_COMMON_TEST_CLOCK_H_

#include <cstdint>

#include "absl/time/time.h"
#include "common/mutex.h"
#include "common/time_source.h"

namespace psring {

// Starts at zero. Thread-safe.
class TestClock final : public TimeSource {
 public:
  void Set(absl::Duration now) {
    MutexLock lock(&mutex_);
    now_ = now;
  }

  absl::Duration Elapsed() const override {
    MutexLock lock(&mutex_);
    ++looks_;
    looked_.NotifyAll();
    return now_;
  }

  // Blocks until others have looked so many times from now on. A thread that looks, acts
  // and looks again has acted on the time that was last set after two.
  void AwaitLooks(int64_t looks) const {
    MutexLock lock(&mutex_);
    const int64_t enough = looks_ + looks;
    while (looks_ < enough) looked_.Wait(&mutex_);
  }

 private:
  mutable Mutex mutex_;
  mutable CondVar looked_;
  absl::Duration now_ ABSL_GUARDED_BY(mutex_) = absl::ZeroDuration();
  mutable int64_t looks_ ABSL_GUARDED_BY(mutex_) = 0;
};

}  // namespace psring

#endif  // PSRING_COMMON_TEST_CLOCK_H_
