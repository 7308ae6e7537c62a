// The training loop, the same for every architecture.
#ifndef PSRING_WORKER_TRAINER_H_
#define PSRING_WORKER_TRAINER_H_

#include <atomic>
#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <utility>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "common/device.h"
#include "common/gradient_exchange.h"
#include "common/layout.h"
#include "common/memory_gauge.h"
#include "common/time_source.h"
#include "common/wire_type.h"
#include "proto/experiment.pb.h"
#include "proto/record.pb.h"
#include "worker/data_set.h"
#include "worker/gradient_accumulator.h"
#include "worker/model.h"
#include "worker/pace.h"
#include "worker/sampler.h"
#include "worker/step_gate.h"
#include "worker/unused_tensors.h"

namespace psring {

// Parameters as they were after `step` steps.
struct Snapshot {
  int64_t step = 0;
  std::vector<float> parameters;
};

enum class TrainingPhase {
  kStarting,
  kData,
  kForward,
  kBackward,
  kWaiting,
  kChecking,
  kHolding
};
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
    int64_t rows = 0;  // This worker's samples in each step in which it has some.
    // Forward and backward passes of a step, each over as many of the rows; divides them.
    int64_t micro_batches = 1;
    // Without it the exchange decides which step is the last.
    std::optional<int64_t> steps = std::nullopt;
    // Those before have been made by others, which left their parameters.
    int64_t first_step = 0;
    // A bucket is launched while the backward pass goes on, or when it is done.
    bool overlap = true;
    Training::NonFinite non_finite = Training::STOP;
    Training::UnusedParameters unused_parameters = Training::ZERO;
    // What gradients are on their way. One that cannot be sent so is an error.
    WireType wire = {};
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
    // Where the batches come from; both null for a model that looks at no sample.
    const DataSet* data;
    Sampler* sampler;
    const TimeSource* time;  // The exchange's too.
    Pace* pace;
    DeviceSpan parameters;
    DeviceSpan gradients;
    // If any, passed between two steps. The time there is in no part of a step, and so in
    // `unaccounted` of the one after.
    StepGate* gate = nullptr;
    // If any, counts the sum over micro-batches.
    std::shared_ptr<MemoryGauge> accumulated_memory = nullptr;
  };
  // Gets a record per step, in the training thread; must not block.
  using StepSink = std::function<void(const StepRecord&)>;

  Trainer(const Options& options, const Parts& parts, StepSink sink);

  // All steps. Errors are the exchange's and the device's, and NotANumberError: a
  // gradient is not finite, and that is to be the end, or beyond what its wire has;
  // FailedPrecondition: parameters were not used, and that is to be the end; and the
  // reason of an abort that came while the pace had it wait; and the gate's. A loss that
  // is not finite is recorded and no error.
  absl::Status Run();

  // Any thread, at any time.
  TrainingProgress progress() const;

  // After Run; leaves none behind.
  std::vector<Snapshot> TakeSnapshots() { return std::move(snapshots_); }

 private:
  // Goes on where the clock showed `last`, and records its parts in record_.
  absl::StatusOr<StepReport> Step(int64_t step, absl::Duration last);
  // Whether the worker has samples in this step.
  bool HasSamples(int64_t step) const;
  // Fills the batch of the pass.
  void Prepare(int64_t step, int64_t pass);
  // The last pass launches the buckets. Nothing has been launched before.
  absl::Status Backward(int64_t step, int64_t pass);
  absl::Status ContributeZeros(int64_t step);
  void SetZero(int tensor);
  void StartLaunching();  // Before the first MarkReady of a step.
  // This gradient is the step's: launches what has become full by it, with overlap.
  absl::Status MarkReady(int64_t step, int tensor);
  absl::Status LaunchFull(int64_t step);
  absl::Status FinishLaunching(int64_t step);  // Every tensor is ready.
  // Deals with gradients of the bucket that are not finite, or cannot be sent.
  absl::Status CheckFinite(int64_t step, const Bucket& bucket);
  void RecordBuckets(const StepReport& report);
  // Digests and snapshot, where due after `completed` steps.
  void Inspect(int64_t completed, bool last);
  // Of each tensor, and of all.
  void RecordDigests();
  void Enter(TrainingPhase phase);

  const Options options_;
  const Parts parts_;
  const StepSink sink_;

  GradientAccumulator accumulator_;
  UnusedTensors unused_;
  DeviceBuffer features_;
  std::vector<int32_t> labels_;
  Batch batch_;
  std::atomic<int64_t> step_{0};
  std::atomic<TrainingPhase> phase_{TrainingPhase::kStarting};
  std::atomic<uint64_t> advances_{0};
  // Of this step, by bucket: tensors whose gradient is not final yet, when there were
  // none left, and when the exchange was given it.
  std::vector<int> unready_;
  size_t next_ = 0;  // Bucket to be launched.
  std::vector<absl::Duration> ready_;
  std::vector<absl::Duration> launched_;
  StepRecord record_;  // Of this step; its memory is used for all.
  std::vector<Snapshot> snapshots_;
};

}  // namespace psring

#endif  // PSRING_WORKER_TRAINER_H_
