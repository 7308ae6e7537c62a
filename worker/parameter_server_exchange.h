// The exchange through parameter servers: gradients are pushed, updated parameters
// pulled.
#ifndef PSRING_WORKER_PARAMETER_SERVER_EXCHANGE_H_
#define PSRING_WORKER_PARAMETER_SERVER_EXCHANGE_H_

#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "common/device_span.h"
#include "common/exchange_order.h"
#include "common/gradient_exchange.h"
#include "common/layout.h"
#include "common/link_counters.h"
#include "common/mutex.h"
#include "common/slot_plan.h"
#include "common/time_source.h"
#include "worker/parameter_channel.h"

namespace psring {

// Launch pushes each slot of the bucket and pulls it for the next step at the same time:
// the pull waits on the server for the round that the push belongs to, so nothing is
// gained by waiting for the push to be acknowledged, and one round trip is lost. The
// answer lands in the parameter slice; Finish waits for all pushes and pulls.
//
// Bind and Finish wait for requests only, and a channel bounds each of these. They
// return, with an error too, only when no request is left that reads the gradients or
// writes the parameters. The first error ends all requests and is what every later call
// returns.
//
// Only for synchronous servers: a pull for step s must bring version s.
class ParameterServerExchange final : public GradientExchange {
 public:
  // channels[k] leads to server k of the plan. `time` outlives the exchange. Host memory
  // only.
  ParameterServerExchange(int rank, SlotPlan plan,
                          std::vector<std::unique_ptr<ParameterChannel>> channels,
                          const TimeSource* time);
  // Aborts; no other call is running.
  ~ParameterServerExchange() override;

  absl::Status Bind(DeviceSpan parameters, DeviceSpan gradients) override;
  absl::Status Launch(int64_t step, const Bucket& bucket,
                      const ReadyEvent& ready) override;
  absl::StatusOr<StepReport> Finish(int64_t step) override;
  void Abort(absl::Status reason) override;
  // Payload counts when a request has succeeded.
  ExchangeTraffic traffic() const override { return traffic_.totals(); }
  std::string Awaited() const override ABSL_LOCKS_EXCLUDED(mutex_);

 private:
  void Initialize(const Slot& slot);
  void Push(const Slot& slot, int64_t step);
  void Pull(const Slot& slot, int64_t step);
  void SetPulling(const Slot& slot, bool pulling) ABSL_LOCKS_EXCLUDED(mutex_);
  ParameterChannel& ChannelOf(const Slot& slot) { return *channels_[slot.server]; }

  void BeginRequest();
  // A request's callback calls this last. Keeps the first error and ends the rest.
  void EndRequest(const absl::Status& status);
  // Blocks until no request is running; the first error, if any.
  absl::Status Wait();
  // Keeps the first error; true if this is the one.
  bool KeepError(const absl::Status& error);
  absl::Status error();

  const int rank_;
  const SlotPlan plan_;
  const TimeSource* const time_;
  LinkCounters traffic_;

  // The training thread's; spans are set before the requests that use them start.
  ExchangeOrder order_;
  DeviceSpan parameters_;
  DeviceSpan gradients_;

  mutable Mutex mutex_;
  absl::Status error_ ABSL_GUARDED_BY(mutex_);         // OK until the first error.
  std::vector<bool> pulling_ ABSL_GUARDED_BY(mutex_);  // By slot: a pull is running.
  int64_t running_ ABSL_GUARDED_BY(mutex_) = 0;
  // By bucket: when the last of its slots to come so far was here.
  std::vector<absl::Duration> done_ ABSL_GUARDED_BY(mutex_);
  CondVar idle_;

  // Last, so that it ends first: callbacks use the members above.
  const std::vector<std::unique_ptr<ParameterChannel>> channels_;
};

}  // namespace psring

#endif  // PSRING_WORKER_PARAMETER_SERVER_EXCHANGE_H_
