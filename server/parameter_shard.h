// One server's part of the parameters: takes contributions, applies the optimizer,
// answers pulls. No network in it.
#ifndef PSRING_SERVER_PARAMETER_SHARD_H_
#define PSRING_SERVER_PARAMETER_SHARD_H_

#include <cstdint>
#include <functional>
#include <map>
#include <memory>
#include <span>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "common/float_pieces.h"
#include "common/gradient_exchange.h"
#include "common/layout.h"
#include "common/link_counters.h"
#include "common/mutex.h"
#include "common/partition.h"
#include "common/slot_plan.h"
#include "proto/experiment.pb.h"
#include "server/consistency_policy.h"
#include "server/slot_parameters.h"

namespace psring {

// A gradient and whatever keeps its floats alive and unchanged.
struct Contribution {
  FloatPieces gradient;
  std::shared_ptr<const void> owner;
};

struct PullInfo {
  int rank = 0;
  int64_t step = 0;  // That the parameters are for.
  int slot = 0;
};

struct PullAnswer {
  int64_t version = 0;
  std::span<const float> parameters;
  // Keeps them alive and unchanged (server/slot_parameters.h); to be dropped soon.
  std::shared_ptr<const void> owner;
};

// Names a pull for CancelPull.
struct PullTicket {
  int slot = 0;
  int64_t id = 0;  // 0: answered before Pull returned.

  bool parked() const { return id != 0; }
};

// Invariants; a test is named after each:
//   1. A slot's version is the number of updates applied to it: version v holds the
//      parameters for step v.
//   2. A synchronous round closes when, and only when, every rank has contributed. A
//      repeated or late push is acknowledged and adds nothing.
//   3. An update depends on the contributions alone, never on the order of arrival.
//   4. A pull is done exactly once, with no lock held, and its answer is the slot's whole
//      state at one version, whatever happens to the slot while it is read.
//   5. After Abort nothing changes any more, nothing stays parked, and every call gets
//      the first reason.
//
// Thread-safe. Slots have a lock each and move independently. The thread whose push
// closes a round does the round's work and answers the pulls that waited for it.
//
// Errors of Initialize, Push and Pull, each naming what is here and what was asked:
// kInvalidArgument, the request does not fit this shard (slot, rank, step, size);
// kFailedPrecondition, it came at the wrong time; or the reason of an Abort.
class ParameterShard {
 public:
  struct Options {
    // This server's; may be none.
    std::vector<Slot> slots;
    // By bucket index, for at least the buckets of `slots`.
    std::vector<Range> bucket_ranges;
    int workers = 0;
    Sync::Order order = Sync::RING;
    Optimizer optimizer;
  };
  // The slots and buckets of one server; the caller sets the rest.
  static Options OptionsFor(const BucketPlan& buckets, const SlotPlan& slots, int server);

  using PullDone = std::function<void(absl::StatusOr<PullAnswer> answer)>;

  ParameterShard(Options options, std::unique_ptr<const ConsistencyPolicy> policy);
  // No call is running; pulls still parked are aborted.
  ~ParameterShard();
  ParameterShard(const ParameterShard&) = delete;
  ParameterShard& operator=(const ParameterShard&) = delete;

  // Sets a slot's parameters at version 0; once per slot.
  absl::Status Initialize(int slot, const FloatPieces& parameters);

  // Returns OK once the contribution is held, or need not be: it is acknowledged. The
  // contribution is let go of when its round has closed.
  absl::Status Push(const PushInfo& push, Contribution contribution);

  // Done when the slot is initialized and the policy lets the worker see it; before Pull
  // returns, or later by another thread: until then the pull is parked.
  PullTicket Pull(const PullInfo& pull, PullDone done);

  // Ends a parked pull with a PeerLostError that names whom it was waiting for. Without
  // effect when the pull is already done.
  void CancelPull(const PullTicket& ticket);

  // `reason` is not OK. The first one counts.
  void Abort(const absl::Status& reason);

  int workers() const { return workers_; }
  // Of the largest slot; 0 without slots.
  int64_t largest_slot_bytes() const { return largest_slot_bytes_; }
  int slot_count() const { return static_cast<int>(slots_.size()); }
  int64_t parked_pulls() const;
  // Memory of the slots' parameters, with the versions that are still being sent.
  const BufferGauge& parameter_memory() const { return *parameter_memory_; }
  // Payload that came in (accepted or ignored) and that answers took out. Initialize and
  // the pulls for step 0 are the first distribution.
  ExchangeTraffic traffic() const { return traffic_.totals(); }

 private:
  class SlotState;

  // The slot that a request is about, or why the request is none.
  absl::StatusOr<SlotState*> Find(int slot, int rank, int64_t step) const;

  const int workers_;
  const std::unique_ptr<const ConsistencyPolicy> policy_;
  const std::shared_ptr<BufferGauge> parameter_memory_;
  int64_t largest_slot_bytes_ = 0;  // Set up once.
  LinkCounters traffic_;
  std::map<int, std::unique_ptr<SlotState>> slots_;  // By slot index; set up once.

  Mutex mutex_;
  absl::Status abort_reason_ ABSL_GUARDED_BY(mutex_);  // OK until aborted.
};

}  // namespace psring

#endif  // PSRING_SERVER_PARAMETER_SHARD_H_
