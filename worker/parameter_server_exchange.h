// The exchange through parameter servers: gradients go to them, updated parameters come
// back.
#ifndef PSRING_WORKER_PARAMETER_SERVER_EXCHANGE_H_
#define PSRING_WORKER_PARAMETER_SERVER_EXCHANGE_H_

#include <cstdint>
#include <memory>
#include <span>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/time/time.h"
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

// Launch exchanges each slot of the bucket: one message hands in its gradient and asks
// for the parameters of the next step, so that the server looks for these right after it
// has taken the gradient, and not behind other workers' messages. The answer comes when
// the consistency mode lets it go, and lands in the parameter slice; Finish waits for all
// of them. Only the first parameters are pulled by themselves.
//
// The modes differ on the servers alone. Each slot goes its own way: its answer says
// which version it brings and which step the slot's next contribution has to name, and
// slots may be apart. Slot 0's answer also says when the run has no work left; then
// Finish leaves the servers, so that nobody waits for this worker.
//
// Bind, Finish and ReadSnapshot wait for requests only, and a channel bounds each of
// these. They return, with an error too, only when no request is left that reads the
// gradients or writes the parameters. The first error ends all requests and is what every
// later call returns.
class ParameterServerExchange final : public GradientExchange {
 public:
  // The slots of a snapshot are taken one by one, each after the same number of
  // contributions.
  struct SnapshotOrigin {
    int64_t version_min = 0;
    int64_t version_max = 0;
    // When the last slot was taken, on its server's clock since the start barrier.
    absl::Duration time = absl::ZeroDuration();
  };

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

  // Fetches the parameters as the servers kept them after `step` steps of all workers;
  // blocks. `parameters` has the size of the bound ones. The training thread's, after
  // Bind and not between Launch and Finish.
  absl::StatusOr<SnapshotOrigin> ReadSnapshot(int64_t step, std::span<float> parameters);

  // Payload counts when a request has succeeded.
  ExchangeTraffic traffic() const override { return traffic_.totals(); }
  std::string Awaited() const override ABSL_LOCKS_EXCLUDED(mutex_);

 private:
  void Initialize(const Slot& slot);
  void PullFirst(const Slot& slot);
  // Hands in a contribution computed from what `from` brought.
  void Exchange(const Slot& slot, const Pulled& from);
  // A request for parameters of the slot, and its callback.
  void BeginPull(const Slot& slot);
  void EndPull(const Slot& slot, int64_t step, const absl::StatusOr<Pulled>& pulled);
  int64_t VersionSkew() ABSL_LOCKS_EXCLUDED(mutex_);
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
  int64_t version_skew_ = 0;  // Of the parameters that this step computes with.

  // Of a slot: what its last answer brought, and whether one is awaited.
  struct SlotState {
    Pulled pulled;
    bool awaited = false;
  };
  // An answer, and when it came.
  struct Arrival {
    Pulled pulled;
    absl::Duration time = absl::ZeroDuration();
  };

  mutable Mutex mutex_;
  absl::Status error_ ABSL_GUARDED_BY(mutex_);            // OK until the first error.
  std::vector<SlotState> slots_ ABSL_GUARDED_BY(mutex_);  // By slot.
  Arrival last_ ABSL_GUARDED_BY(mutex_);                  // Of all answers.
  bool finished_ ABSL_GUARDED_BY(mutex_) = false;         // So slot 0's answer said.
  int64_t running_ ABSL_GUARDED_BY(mutex_) = 0;
  // By bucket: when the last of its slots to come so far was here.
  std::vector<absl::Duration> done_ ABSL_GUARDED_BY(mutex_);
  CondVar idle_;

  // Last, so that it ends first: callbacks use the members above.
  const std::vector<std::unique_ptr<ParameterChannel>> channels_;
};

}  // namespace psring

#endif  // PSRING_WORKER_PARAMETER_SERVER_EXCHANGE_H_
