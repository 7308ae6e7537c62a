// The training loop, the same for every architecture.
#ifndef PSRING_WORKER_TRAINER_H_
#define PSRING_WORKER_TRAINER_H_

#include <atomic>
#include <cstdint>
#include <functional>
#include <optional>
#include <utility>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "common/device.h"
#include "common/gradient_exchange.h"
#include "common/layout.h"
#include "common/time_source.h"
#include "proto/experiment.pb.h"
#include "proto/record.pb.h"
#include "worker/data_set.h"
#include "worker/model.h"
#include "worker/sampler.h"
#include "worker/slowdown.h"

namespace psring {

// Parameters as they were after `step` steps.
struct Snapshot {
  int64_t step = 0;
  std::vector<float> parameters;
};

enum class TrainingPhase { kStarting, kData, kForward, kBackward, kWaiting, kChecking };
// "forward", "waiting"...
const char* ToString(TrainingPhase phase);

// Where a training is.
struct TrainingProgress {
  int64_t step = 0;
  TrainingPhase phase = TrainingPhase::kStarting;
  uint64_t advances = 0;  // Grows with each phase and each gradient.
};

// One worker's training. Everything pointed to outlives it. One thread.
class Trainer {
 public:
  struct Options {
    int rank = 0;
    int workers = 1;
    // Without it the exchange decides which step is the last.
    std::optional<int64_t> steps = std::nullopt;
    Training::NonFinite non_finite = Training::STOP;
    // As in proto/experiment.proto's Training; the last step always counts.
    int64_t digest_interval = 0;
    // The same for snapshots; without `take_snapshots` there are none.
    int64_t snapshot_interval = 0;
    bool take_snapshots = false;
  };
  struct Parts {
    Device* device;
    Model* model;  // Bound to `parameters` and `gradients`, as is the exchange.
    GradientExchange* exchange;
    const BucketPlan* buckets;
    const DataSet* data;
    Sampler* sampler;
    const TimeSource* time;  // The exchange's too.
    Slowdown* slowdown;
    DeviceSpan parameters;
    DeviceSpan gradients;
  };
  // Gets a record per step, in the training thread; must not block.
  using StepSink = std::function<void(const StepRecord&)>;

  Trainer(const Options& options, const Parts& parts, StepSink sink);

  // All steps. Errors are the exchange's and the device's, and NotANumberError: a
  // gradient is not finite, and that is to be the end. A loss that is not finite is
  // recorded and no error.
  absl::Status Run();

  // Any thread, at any time.
  TrainingProgress progress() const;

  // After Run; leaves none behind.
  std::vector<Snapshot> TakeSnapshots() { return std::move(snapshots_); }

 private:
  // Goes on where the clock showed `last`, and records its parts in record_.
  absl::StatusOr<StepReport> Step(int64_t step, absl::Duration last);
  // Fills the batch of the step.
  void Prepare(int64_t step);
  absl::Status BackwardAndLaunch(int64_t step);
  // Deals with gradients of the bucket that are not finite.
  absl::Status CheckFinite(int64_t step, const Bucket& bucket);
  void RecordBuckets(const StepReport& report);
  // Digest and snapshot, where due after `completed` steps.
  void Inspect(int64_t completed, bool last);
  void Enter(TrainingPhase phase);

  const Options options_;
  const Parts parts_;
  const StepSink sink_;

  DeviceBuffer features_;
  std::vector<int32_t> labels_;
  Batch batch_;
  std::atomic<int64_t> step_{0};
  std::atomic<TrainingPhase> phase_{TrainingPhase::kStarting};
  std::atomic<uint64_t> advances_{0};
  // Of this step, by bucket: tensors whose gradient is not final yet, when there were
  // none left, and when the exchange was given it.
  std::vector<int> unready_;
  std::vector<absl::Duration> ready_;
  std::vector<absl::Duration> launched_;
  StepRecord record_;  // Of this step; its memory is used for all.
  std::vector<Snapshot> snapshots_;
};

}  // namespace psring

#endif  // PSRING_WORKER_TRAINER_H_
