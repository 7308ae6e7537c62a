// Where logic gets the time from, so that tests and simulations can drive it.
#ifndef PSRING_COMMON_TIME_SOURCE_H_
#define PSRING_COMMON_TIME_SOURCE_H_

#include <chrono>

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

}  // namespace psring

#endif  // PSRING_COMMON_TIME_SOURCE_H_
