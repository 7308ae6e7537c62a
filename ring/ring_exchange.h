// Training through a ring: the ranks sum the gradients and run the optimizer themselves.
#ifndef PSRING_RING_RING_EXCHANGE_H_
#define PSRING_RING_RING_EXCHANGE_H_

#include <cstddef>
#include <cstdint>
#include <deque>
#include <memory>
#include <optional>
#include <thread>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "common/contributors.h"
#include "common/device_span.h"
#include "common/exchange_order.h"
#include "common/gradient_exchange.h"
#include "common/layout.h"
#include "common/memory_gauge.h"
#include "common/mutex.h"
#include "common/optimizer.h"
#include "common/partition.h"
#include "common/state_slice.h"
#include "common/step_constants.h"
#include "common/time_source.h"
#include "common/wire_type.h"
#include "proto/experiment.pb.h"
#include "ring/collectives.h"
#include "ring/gradient_sum.h"

namespace psring {

struct RingExchangeOptions {
  // On all ranks or none: the optimizer is sharded, and this rank updates the chunks of
  // that position in the ring (ring/collectives.h). Only with fp32 on the wire.
  std::optional<int> shard = std::nullopt;
  // Default: all ranks.
  std::optional<Contributors> contributors = std::nullopt;
  // fp32 or 16 bits.
  WireType wire = {};
  // If any, count the optimizer's state, and buffers for the wire.
  std::shared_ptr<MemoryGauge> state_memory = nullptr;
  std::shared_ptr<MemoryGauge> wire_memory = nullptr;
};

// Each bucket is exchanged, in place, one at a time and in index order, and its optimizer
// runs on the sum, multiplied once by MeanFactor(N), of the N ranks that have samples in
// the step:
//
//            exchange                                     optimizer
//   usual    all-reduce of the gradients                  afterwards, on all the bucket
//   sharded  reduce-scatter of the gradients, optimizer,  in the exchange, on this
//            all-gather of the parameters                 rank's chunk
//
// With one rank the sum is the gradient itself. With a wire of 16 bits gradients are
// multiplied, and rounded, before they are summed (ring/gradient_sum.h).
//
// Two threads do this: one of the exchange while the training thread goes on with its
// backward pass, and the training thread too once that is in Finish and would only wait.
// Each takes the next bucket that is launched, if none is being exchanged, and else the
// next one whose sum is there and whose optimizer has not run. The usual optimizer runs
// during the backward pass where the links have nothing to do, at the cost of processor
// time that the step needs anyway, and a bucket that is launched meanwhile waits for it;
// otherwise in Finish, while the links are busy with the sums that are left.
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
               std::unique_ptr<Collectives> collectives, const TimeSource* time,
               const RingExchangeOptions& options = {});
  ~RingExchange() override;

  absl::Status Bind(DeviceSpan parameters, DeviceSpan gradients) override;
  absl::Status Launch(int64_t step, const Bucket& bucket,
                      const ReadyEvent& ready) override;
  absl::StatusOr<StepReport> Finish(int64_t step) override;
  void Abort(absl::Status reason) override;
  // The wire is known: every byte of it is ours.
  ExchangeTraffic traffic() const override;
  // Of the optimizer, for the elements that this rank updates: bucket by bucket. To be
  // changed before Bind, and read between two steps, by the training thread.
  std::vector<StateSlice> state();
  std::string Awaited() const override ABSL_LOCKS_EXCLUDED(mutex_);

 private:
  struct Launched {
    int64_t step = 0;
    Bucket bucket;
    ReadyEvent ready = ReadyEvent::Happened();
  };

  void RunThread();  // The communication thread.
  bool ExchangeIsDueLocked() const ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  bool UpdateIsDueLocked() const ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  // Does what is due in the calling thread, unless another has taken it.
  void DoNext() ABSL_LOCKS_EXCLUDED(mutex_);
  void Exchange(const Launched& launched) ABSL_LOCKS_EXCLUDED(mutex_);
  absl::Status RunCollectives(const Launched& launched);
  float MeanFactorOf(int64_t step) const;
  // Mean and optimizer, on this rank's part of the bucket.
  absl::Status Update(int64_t step, int bucket) ABSL_LOCKS_EXCLUDED(mutex_);
  // Returns once so many buckets of the current step have been updated, and does what
  // nobody else does; after an error once nothing touches the buffers any more.
  absl::Status AwaitUpdated(size_t buckets) ABSL_LOCKS_EXCLUDED(mutex_);
  absl::Status status() const ABSL_LOCKS_EXCLUDED(mutex_);

  const BucketPlan plan_;
  const bool sharded_;
  const Contributors contributors_;
  const std::shared_ptr<StepConstantsSource> constants_;
  const TimeSource* const time_;

  // Used by Bind, and from then on by whoever has set exchanging_.
  const std::unique_ptr<Collectives> collectives_;
  GradientSum sum_;
  int64_t operations_ = 0;  // Of this step, once Bind has returned.

  // Only the training thread, until the communication thread starts; the spans stay.
  ExchangeOrder order_;
  DeviceSpan parameters_;
  DeviceSpan gradients_;
  // By bucket: the elements of the flat buffers that this rank updates, and how; used by
  // whoever updates the bucket.
  std::vector<Range> own_;
  std::vector<SliceOptimizer> optimizers_;

  mutable Mutex mutex_;
  CondVar changed_;
  absl::Status status_ ABSL_GUARDED_BY(mutex_);  // The first error; ends everything.
  std::deque<Launched> queue_ ABSL_GUARDED_BY(mutex_);
  bool exchanging_ ABSL_GUARDED_BY(mutex_) = false;  // A bucket is being exchanged.
  bool updating_ ABSL_GUARDED_BY(mutex_) = false;    // A bucket is updated afterwards.
  // Of the step that was launched last: how many of its first buckets have been.
  int64_t step_ ABSL_GUARDED_BY(mutex_) = 0;
  size_t exchanged_ ABSL_GUARDED_BY(mutex_) = 0;
  size_t updated_ ABSL_GUARDED_BY(mutex_) = 0;
  std::vector<absl::Duration> done_ ABSL_GUARDED_BY(mutex_);  // When each was exchanged.
  std::vector<absl::Duration> working_ ABSL_GUARDED_BY(mutex_);  // Adding it up.
  // Since when the training thread is in Finish, if it is, and how much of it an
  // optimizer has run, of which there is one at a time.
  std::optional<absl::Duration> finishing_ ABSL_GUARDED_BY(mutex_);
  absl::Duration optimizer_ ABSL_GUARDED_BY(mutex_) = absl::ZeroDuration();

  std::thread thread_;  // Runs from Bind on.
};

}  // namespace psring

#endif  // PSRING_RING_RING_EXCHANGE_H_
