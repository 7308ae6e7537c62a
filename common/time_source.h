// Where logic gets the time from, so that tests and simulations can drive it.
#ifndef PSRING_COMMON_TIME_SOURCE_H_
#define PSRING_COMMON_TIME_SOURCE_H_

#include <atomic>
#include <chrono>
#include <cstdint>

#include "absl/time/time.h"

namespace psring {

class TimeSource {
 public:
  virtual ~TimeSource() = default;
  // Monotonic; since a start of the source's own choosing. Any thread.
  virtual absl::Duration Elapsed() const = 0;
};

// The machine's steady clock, since construction.
class RealTime final : public TimeSource {
 public:
  RealTime() : start_(std::chrono::steady_clock::now()) {}
  absl::Duration Elapsed() const override {
    return absl::FromChrono(std::chrono::steady_clock::now() - start_);
  }

 private:
  const std::chrono::steady_clock::time_point start_;
};

// Zero until Start, then the time since: for what is made before the moment from which
// it counts. Start once, from any thread.
class TimeSinceStart final : public TimeSource {
 public:
  void Start() { start_ns_ = absl::ToInt64Nanoseconds(time_.Elapsed()); }
  absl::Duration Elapsed() const override {
    const int64_t start_ns = start_ns_;
    return start_ns < 0 ? absl::ZeroDuration()
                        : time_.Elapsed() - absl::Nanoseconds(start_ns);
  }

 private:
  const RealTime time_;
  std::atomic<int64_t> start_ns_{-1};
};

}  // namespace psring

#endif  // PSRING_COMMON_TIME_SOURCE_H_
