// The exchange through parameter servers: gradients go to them, updated parameters come
// back.
#ifndef PSRING_WORKER_PARAMETER_SERVER_EXCHANGE_H_
#define PSRING_WORKER_PARAMETER_SERVER_EXCHANGE_H_

#include <cstdint>
#include <limits>
#include <memory>
#include <optional>
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
#include "common/memory_gauge.h"
#include "common/mutex.h"
#include "common/slot_plan.h"
#include "common/time_source.h"
#include "common/wire_type.h"
#include "worker/gradient_encoder.h"
#include "worker/parameter_channel.h"

namespace psring {

// Launch exchanges each slot of the bucket: one message hands in its gradient and asks
// for the parameters of the next step, so that the server looks for these right after it
// has taken the gradient, and not behind other workers' messages. The answer comes when
// the consistency mode lets it go, and lands in the parameter slice; Finish waits for all
// of them. Only the first parameters are pulled by themselves.
//
// To each server only a window of slots is unanswered at a time; those behind them wait
// here, in order.
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
  // Where a round needs every worker's slot: without a bound, a worker whose connection
  // gets more of a server's link fills it with slots of little use yet, in place of the
  // ones that are missing, and the way back is idle meanwhile (server/README.md). Four of
  // the largest slots, so that one can be on its way, one be added up and one come back;
  // or a worker's share of 1 MiB, if that is more, which fills a server's link with some
  // 10 ms of queues. Links with a delay need more, `bytes_on_the_way` in a round trip.
  static int64_t WindowBytes(const SlotPlan& plan, int workers, int64_t bytes_on_the_way);
  static constexpr int64_t kNoWindow = std::numeric_limits<int64_t>::max();

  // The slots of a snapshot are taken one by one, each after the same number of
  // contributions.
  struct SnapshotOrigin {
    int64_t version_min = 0;
    int64_t version_max = 0;
    // When the last slot was taken, on its server's clock since the start barrier.
    absl::Duration time = absl::ZeroDuration();
  };

  // channels[k] leads to server k of the plan; `local_server` is the one on the same
  // host, if any (ExchangeTraffic). `time` outlives the exchange. Host memory only.
  // Of slots to one server as many are unanswered at a time as `window_bytes` holds, or
  // one. A window is for modes in which an answer waits for contributions to its own slot
  // alone, of all workers, up to the same step: else workers may wait for each other.
  // Gradients go as `wire`, and only gradients; `wire_memory`, if any, counts its
  // buffers.
  ParameterServerExchange(int rank, SlotPlan plan,
                          std::vector<std::unique_ptr<ParameterChannel>> channels,
                          const TimeSource* time,
                          std::optional<int> local_server = std::nullopt,
                          int64_t window_bytes = kNoWindow, const WireType& wire = {},
                          const std::shared_ptr<MemoryGauge>& wire_memory = nullptr);
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
  // Puts a slot at the end of its server's queue.
  absl::Status Enqueue(const Slot& slot) ABSL_LOCKS_EXCLUDED(mutex_);
  // Encodes and exchanges queued slots for as long as the server's window has room.
  void SendQueued(int server) ABSL_LOCKS_EXCLUDED(mutex_);
  // The next of them; null: none is left, or there is no room, and nobody sends now.
  const Slot* TakeQueued(int server) ABSL_LOCKS_EXCLUDED(mutex_);
  // Hands in a contribution computed from what the slot's last answer brought.
  void Exchange(const Slot& slot) ABSL_LOCKS_EXCLUDED(mutex_);
  void EndExchange(const Slot& slot, const absl::StatusOr<Pulled>& pulled)
      ABSL_LOCKS_EXCLUDED(mutex_);
  // A request for parameters of the slot, and its callback.
  void BeginPull(const Slot& slot);
  void EndPull(const Slot& slot, int64_t step, const absl::StatusOr<Pulled>& pulled);
  int64_t VersionSkew() ABSL_LOCKS_EXCLUDED(mutex_);
  // Says of each bucket how long servers have been at work for it: slots of one server
  // one after the other, servers at the same time.
  void SumUpWorkingLocked() ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
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
  const int64_t window_bytes_;
  LinkCounters traffic_;
  // Used by whoever sends to a server; its drift is that of a step once that has ended.
  GradientEncoder encoder_;

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
  // Of a server: the step's slots that have been launched, in order; those before `next`
  // have been sent. One thread at a time sends.
  struct Queue {
    std::vector<int> slots;
    size_t next = 0;
    int64_t unanswered_bytes = 0;
    bool sending = false;

    int64_t waiting() const { return static_cast<int64_t>(slots.size() - next); }
  };
  // How long Finish has been kept by another worker: of all answers the one that was kept
  // back longest since Finish began.
  struct Lateness {
    absl::Duration since = absl::InfiniteDuration();  // Not in Finish.
    absl::Duration late = absl::ZeroDuration();
    int released_by = 0;
  };

  mutable Mutex mutex_;
  absl::Status error_ ABSL_GUARDED_BY(mutex_);            // OK until the first error.
  std::vector<SlotState> slots_ ABSL_GUARDED_BY(mutex_);  // By slot.
  std::vector<Queue> queues_ ABSL_GUARDED_BY(mutex_);     // By server.
  Lateness lateness_ ABSL_GUARDED_BY(mutex_);
  bool finished_ ABSL_GUARDED_BY(mutex_) = false;   // So slot 0's answer said.
  int64_t running_ ABSL_GUARDED_BY(mutex_) = 0;     // Queued ones included.
  int64_t operations_ ABSL_GUARDED_BY(mutex_) = 0;  // Of this step: slots exchanged.
  // By bucket: when the last of its slots to come so far was here.
  std::vector<absl::Duration> done_ ABSL_GUARDED_BY(mutex_);
  std::vector<absl::Duration> working_ ABSL_GUARDED_BY(mutex_);    // By bucket.
  std::vector<absl::Duration> of_server_ ABSL_GUARDED_BY(mutex_);  // Of one bucket.
  CondVar idle_;

  // Last, so that it ends first: callbacks use the members above.
  const std::vector<std::unique_ptr<ParameterChannel>> channels_;
  // From the launch of a step's last bucket until it is awaited: lent the caller's
  // thread.
  ParameterChannel* lent_ = nullptr;
};

}  // namespace psring

#endif  // PSRING_WORKER_PARAMETER_SERVER_EXCHANGE_H_
