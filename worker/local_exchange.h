// The exchange of one process alone: no communication, the same arithmetic. What the
// other modes must equal when there is one worker.
#ifndef PSRING_WORKER_LOCAL_EXCHANGE_H_
#define PSRING_WORKER_LOCAL_EXCHANGE_H_

#include <cstdint>
#include <memory>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "common/device_span.h"
#include "common/exchange_order.h"
#include "common/gradient_exchange.h"
#include "common/layout.h"
#include "common/memory_gauge.h"
#include "common/mutex.h"
#include "common/optimizer.h"
#include "common/state_slice.h"
#include "common/step_constants.h"
#include "common/time_source.h"
#include "proto/experiment.pb.h"

namespace psring {

// Finish overwrites the gradients, as any exchange may: it scales them in place.
class LocalExchange final : public GradientExchange {
 public:
  // `constants` are the optimizer's, whose state `state_memory` counts, if anything;
  // `time` outlives the exchange. Host memory only.
  LocalExchange(BucketPlan plan, const Optimizer& optimizer,
                std::shared_ptr<StepConstantsSource> constants, const TimeSource* time,
                const std::shared_ptr<MemoryGauge>& state_memory = nullptr);

  absl::Status Bind(DeviceSpan parameters, DeviceSpan gradients) override;
  absl::Status Launch(int64_t step, const Bucket& bucket,
                      const ReadyEvent& ready) override;
  absl::StatusOr<StepReport> Finish(int64_t step) override;
  void Abort(absl::Status reason) override;
  ExchangeTraffic traffic() const override { return {}; }
  std::string Awaited() const override { return ""; }
  // Of the optimizer, bucket by bucket; as RingExchange::state.
  std::vector<StateSlice> state();

 private:
  absl::Status aborted();

  const BucketPlan plan_;
  const std::shared_ptr<StepConstantsSource> constants_;
  const TimeSource* const time_;

  // The training thread's.
  ExchangeOrder order_;
  std::vector<SliceOptimizer> optimizers_;  // By bucket.
  DeviceSpan parameters_;
  DeviceSpan gradients_;
  std::vector<absl::Duration> done_;  // By bucket.

  Mutex mutex_;
  absl::Status aborted_ ABSL_GUARDED_BY(mutex_);  // OK until aborted.
};

}  // namespace psring

#endif  // PSRING_WORKER_LOCAL_EXCHANGE_H_
