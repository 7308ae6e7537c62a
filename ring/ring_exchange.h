// Training through a ring: every rank sums the gradients and runs the optimizer itself.
#ifndef PSRING_RING_RING_EXCHANGE_H_
#define PSRING_RING_RING_EXCHANGE_H_

#include <cstddef>
#include <cstdint>
#include <deque>
#include <memory>
#include <thread>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "common/device_span.h"
#include "common/exchange_order.h"
#include "common/gradient_exchange.h"
#include "common/layout.h"
#include "common/mutex.h"
#include "common/optimizer.h"
#include "common/step_constants.h"
#include "common/time_source.h"
#include "proto/experiment.pb.h"
#include "ring/collectives.h"

namespace psring {

// A bucket is summed in place in the gradients, one at a time and in index order: by a
// communication thread while the training thread goes on with its backward pass, and by
// the training thread itself once that is in Finish and would only wait. Finish
// multiplies each sum once by MeanFactor(ranks) and applies the optimizer to the bucket's
// slice. With one rank the sum is the gradient itself.
//
// Threading and errors as in common/gradient_exchange.h. Once Finish has returned, unless
// it was refused, the buffers are the caller's again. Destroying it aborts the
// collectives and joins the thread.
class RingExchange final : public GradientExchange {
 public:
  // `constants` are the optimizer's, the same on every rank. `collectives` are this
  // rank's of `ranks`. `time` outlives the exchange.
  RingExchange(int ranks, BucketPlan plan, const Optimizer& optimizer,
               std::shared_ptr<StepConstantsSource> constants,
               std::unique_ptr<Collectives> collectives, const TimeSource* time);
  ~RingExchange() override;

  absl::Status Bind(DeviceSpan parameters, DeviceSpan gradients) override;
  absl::Status Launch(int64_t step, const Bucket& bucket,
                      const ReadyEvent& ready) override;
  absl::StatusOr<StepReport> Finish(int64_t step) override;
  void Abort(absl::Status reason) override;
  // The wire is known: every byte of it is ours.
  ExchangeTraffic traffic() const override;
  std::string Awaited() const override ABSL_LOCKS_EXCLUDED(mutex_);

 private:
  struct Launched {
    int64_t step = 0;
    Bucket bucket;
    ReadyEvent ready = ReadyEvent::Happened();
  };

  void SumLaunchedBuckets();  // The communication thread.
  bool NextIsDueLocked() const ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  // Sums the next launched bucket in the calling thread, unless another has taken it.
  void SumNext() ABSL_LOCKS_EXCLUDED(mutex_);
  // Returns once so many buckets of the current step have been summed, and sums what
  // nobody else does; after an error once nothing touches the gradients any more.
  absl::Status AwaitSummed(size_t buckets) ABSL_LOCKS_EXCLUDED(mutex_);
  absl::Status status() const ABSL_LOCKS_EXCLUDED(mutex_);

  const BucketPlan plan_;
  const float mean_factor_;
  const std::shared_ptr<StepConstantsSource> constants_;
  const TimeSource* const time_;

  // Used by Bind, and from then on by whoever has set summing_.
  const std::unique_ptr<Collectives> collectives_;

  // Only the training thread; the spans are set before the communication thread starts.
  ExchangeOrder order_;
  DeviceSpan parameters_;
  DeviceSpan gradients_;
  std::vector<SliceOptimizer> optimizers_;  // By bucket.

  mutable Mutex mutex_;
  CondVar changed_;
  absl::Status status_ ABSL_GUARDED_BY(mutex_);  // The first error; ends everything.
  std::deque<Launched> queue_ ABSL_GUARDED_BY(mutex_);
  bool summing_ ABSL_GUARDED_BY(mutex_) = false;              // A bucket is being summed.
  size_t summed_ ABSL_GUARDED_BY(mutex_) = 0;                 // Buckets of this step.
  std::vector<absl::Duration> done_ ABSL_GUARDED_BY(mutex_);  // When each was summed.
  int awaited_ ABSL_GUARDED_BY(mutex_) = -1;  // Bucket that Finish waits for; -1: none.

  std::thread thread_;  // Runs from Bind on.
};

}  // namespace psring

#endif  // PSRING_RING_RING_EXCHANGE_H_
