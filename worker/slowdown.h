// A worker made slow on purpose.
#ifndef PSRING_WORKER_SLOWDOWN_H_
#define PSRING_WORKER_SLOWDOWN_H_

#include <functional>
#include <utility>

#include "absl/time/time.h"
#include "common/time_source.h"

namespace psring {

// Stretches computing by a factor, by waiting at the points where a slower machine would
// just have arrived. One thread.
class Slowdown {
 public:
  // `factor` >= 1; `wait` blocks for a duration. `time` outlives this.
  Slowdown(double factor, const TimeSource& time,
           std::function<void(absl::Duration)> wait)
      : factor_(factor), time_(time), wait_(std::move(wait)) {}

  // Computing begins.
  void Start() {
    start_ = time_.Elapsed();
    waited_ = absl::ZeroDuration();
  }

  // Waits until `factor` times the computing since Start would have taken this long.
  void Stretch() {
    if (factor_ <= 1) return;
    const absl::Duration since_start = time_.Elapsed() - start_;
    const absl::Duration computed = since_start - waited_;
    const absl::Duration missing = computed * factor_ - since_start;
    if (missing <= absl::ZeroDuration()) return;
    wait_(missing);
    waited_ += time_.Elapsed() - start_ - since_start;
  }

 private:
  const double factor_;
  const TimeSource& time_;
  const std::function<void(absl::Duration)> wait_;
  absl::Duration start_;
  absl::Duration waited_;
};

}  // namespace psring

#endif  // PSRING_WORKER_SLOWDOWN_H_
