// How long a worker's computing takes: as long as it does, longer in proportion, or as
// long as a timetable says.
#ifndef PSRING_WORKER_PACE_H_
#define PSRING_WORKER_PACE_H_

#include <cstdint>
#include <functional>
#include <optional>
#include <vector>

#include "absl/status/status.h"
#include "absl/time/time.h"
#include "common/layout.h"
#include "common/time_source.h"
#include "proto/experiment.pb.h"

namespace psring {

// When a step's computing gets how far, counted from its begin.
struct Timetable {
  absl::Duration forward;  // Forward has ended.
  std::vector<absl::Duration>
      ready;  // By tensor: its gradient is ready; 0's is the last.
  // Each step takes 1 + u times as long, with u uniform in [-jitter, jitter) and drawn
  // from the seed and the step.
  double jitter = 0;
  uint64_t seed = 0;
};

struct PaceSettings {
  // The computing takes so many times as long as it takes by itself or, where there is a
  // timetable, as that says. At least 1 without one, else above 0.
  double factor = 1;
  std::optional<Timetable> timetable = std::nullopt;
};

// What the experiment's `compute` and `inject` say of worker `rank`.
PaceSettings PaceOf(const Experiment& experiment, int rank,
                    const ParameterLayout& layout);

// Makes computing take its time, by waiting at the points where a slower machine would
// just have arrived: at the end of forward, and before each gradient is ready. What is
// done between the points counts, whatever it is. Of a step of several passes each takes
// its equal part of the step's time, and what lies between them does not count. One
// thread; for each pass Start, then EndForward, then BeforeReady for each tensor that has
// been used, from the last to the first, and at the end for tensor 0 whether it has or
// not.
class Pace {
 public:
  // Blocks for a duration, or until the run is aborted, whose reason it returns.
  using Wait = std::function<absl::Status(absl::Duration)>;

  // `time` outlives this.
  Pace(PaceSettings settings, const TimeSource* time, Wait wait);

  // Of a pass, of which the step has `passes`.
  void Start(int64_t step, int64_t passes = 1);
  // Errors are those of the wait.
  absl::Status EndForward();
  absl::Status BeforeReady(int tensor);

  // Whether the last tensor of the pass came more than kTolerance after its time in the
  // timetable: the computing takes longer than it should, or the waits do.
  bool late() const { return late_; }
  static constexpr absl::Duration kTolerance = absl::Milliseconds(1);

 private:
  absl::Status WaitFor(absl::Duration missing);
  // Waits until so long after Start, in the timetable's time for one pass.
  absl::Status ArriveAt(absl::Duration due);
  // Waits until `factor` times the computing since Start would have taken this long.
  absl::Status Stretch();

  const PaceSettings settings_;
  const TimeSource* const time_;
  const Wait wait_;
  // Of this pass.
  double factor_ = 1;
  double part_ = 1;  // Of the step's time.
  absl::Duration start_;
  absl::Duration waited_;
  bool late_ = false;
};

}  // namespace psring

#endif  // PSRING_WORKER_PACE_H_
