// One server's part of the parameters: takes contributions, applies the optimizer,
// answers pulls. No network in it.
#ifndef PSRING_SERVER_PARAMETER_SHARD_H_
#define PSRING_SERVER_PARAMETER_SHARD_H_

#include <cstdint>
#include <functional>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "common/contributors.h"
#include "common/float_pieces.h"
#include "common/gradient_exchange.h"
#include "common/layout.h"
#include "common/link_counters.h"
#include "common/memory_gauge.h"
#include "common/mutex.h"
#include "common/partition.h"
#include "common/ring_order.h"
#include "common/slot_plan.h"
#include "common/step_constants.h"
#include "common/time_source.h"
#include "proto/experiment.pb.h"
#include "proto/record.pb.h"
#include "server/consistency_policy.h"
#include "server/contribution.h"
#include "server/parked_pulls.h"
#include "server/slot_parameters.h"
#include "server/slot_state.h"

namespace psring {

class ShardSlot;

// A slot as it was after some steps of all workers.
struct SlotSnapshot {
  SlotVersion parameters;
  absl::Duration time = absl::ZeroDuration();  // When, on the shard's clock.
};

// Names a pull for CancelPull.
struct PullTicket {
  int slot = 0;
  int64_t id = 0;  // 0: answered before Pull returned.

  bool parked() const { return id != 0; }
};

// Invariants; a test is named after each:
//   1. A slot's version is the number of updates applied to it.
//   2. Every contribution is counted once, by rank and step, whatever is repeated or
//      late: it is in exactly one update, or dropped and reported as that.
//   3. Where the policy has rounds, an update depends on the contributions alone, never
//      on the order of arrival.
//   4. A pull is done exactly once, with no lock held, and its answer is the slot's whole
//      state at one version, whatever happens to the slot while it is read.
//   5. A worker sees its own push: a pull waits for the push of the step before.
//   6. Exactly `contributions` contributions are begun, so as many reach every slot.
//   7. After Abort nothing changes any more, nothing stays parked, and every call gets
//      the first reason.
//
// Thread-safe. Slots have a lock each and move independently. The thread whose push
// makes an update does its work and answers the pulls that waited for it.
//
// Errors of Initialize, Push, Pull and Snapshot, each naming what is here and what was
// asked: kInvalidArgument, the request does not fit this shard (slot, rank, step,
// version, size); kFailedPrecondition, it came at the wrong time; or the reason of an
// Abort. A push also returns the error of the step constants that it needs, and then has
// changed nothing.
class ParameterShard {
 public:
  struct Options {
    // This server's; may be none.
    std::vector<Slot> slots;
    // By bucket index, for at least the buckets of `slots`.
    std::vector<Range> bucket_ranges;
    int workers = 0;
    // The worker on the same host, if any (ExchangeTraffic).
    std::optional<int> local_worker = std::nullopt;
    // Of the terms of a round.
    Sync::Order order = Sync::RING;
    // Of all workers; default: by rank.
    std::optional<RingOrder> ring_order = std::nullopt;
    // Who has samples in which round, where there are rounds of all workers. Default:
    // all.
    std::optional<Contributors> contributors = std::nullopt;
    StaleUpdates stale_updates;
    Optimizer optimizer;
    // The optimizer's, of version v: of the update that makes v + 1.
    std::shared_ptr<StepConstantsSource> constants;
    // The run's length: workers * steps contributions to every slot. 0: without end, and
    // then without snapshots.
    int64_t steps = 0;
    // Where the job goes on from a checkpoint: what has been made before. The snapshots
    // are those of later steps.
    std::optional<ShardStart> start = std::nullopt;
    // A snapshot of each slot is kept after so many steps of all workers (whenever
    // interval * workers more contributions have been counted), and after the last; 0:
    // after the last only.
    int64_t snapshot_interval = 0;
    // Outlives the shard.
    const TimeSource* time = nullptr;
    // If set, counts the slots' buffers: current and older parameters, optimizer state,
    // and contributions from when they are pushed until they are applied or dropped. Used
    // by the constructor alone; its gauges are used on.
    MemoryGauges* memory = nullptr;
    // If set, hears of every contribution right after it was applied or dropped, slot by
    // slot in that order. Called with the slot locked: it only writes down.
    std::function<void(const ContributionRecord& contribution)> on_contribution;
  };
  // The slots and buckets of one server; the caller sets the rest.
  static Options OptionsFor(const BucketPlan& buckets, const SlotPlan& slots, int server);

  using PullDone = psring::PullDone;

  ParameterShard(Options options, std::unique_ptr<const ConsistencyPolicy> policy);
  // No call is running; pulls still parked are aborted.
  ~ParameterShard();
  ParameterShard(const ParameterShard&) = delete;
  ParameterShard& operator=(const ParameterShard&) = delete;

  // Sets a slot's parameters at version 0; once per slot.
  absl::Status Initialize(int slot, const FloatPieces& parameters);

  // Returns OK once the contribution is held, or need not be: it is acknowledged. The
  // contribution is let go of when it has been applied or dropped. May wait for step
  // constants, as StepConstantsSource::At, without holding a lock.
  absl::Status Push(const PushInfo& push, Contribution contribution);

  // Done when the slot is initialized and the policy lets the worker see it; before Pull
  // returns, or later by another thread: until then the pull is parked.
  PullTicket Pull(const PullInfo& pull, PullDone done);

  // Ends a parked pull with a PeerLostError that names whom it was waiting for. Without
  // effect when the pull is already done.
  void CancelPull(const PullTicket& ticket);

  // The worker pushes no more: rounds and pulls stop waiting for it. Repeating it does
  // nothing. Errors as those of Push.
  absl::Status Leave(int rank);

  // As after `pull.step` steps of all workers, or as it is now if fewer contributions
  // than that have been counted. kNotFound: no snapshot was kept there.
  absl::StatusOr<SlotSnapshot> Snapshot(const PullInfo& pull);

  // Of every slot, as it is; while no call is running that could change it. The spans are
  // the shard's own, those of state valid as long as it lives.
  std::vector<SlotState> States();

  // `reason` is not OK. The first one counts.
  void Abort(const absl::Status& reason);

  int workers() const { return workers_; }
  // Of the largest slot; 0 without slots.
  int64_t largest_slot_bytes() const { return largest_slot_bytes_; }
  // Of all slots' parameters.
  int64_t bytes() const { return bytes_; }
  // The slot's elements of the flat buffer; none where it is none of this server's.
  std::optional<Range> RangeOf(int slot) const;
  int64_t ElementsOf(int slot) const { return RangeOf(slot).value_or(Range()).count; }
  int slot_count() const { return static_cast<int>(slots_.size()); }
  int64_t parked_pulls() const;
  // What the parked pulls of one slot wait for, for messages: "worker 1's next push to
  // slot 3 (at version 7)"; empty where none is parked.
  std::string Awaited() const;
  // The lowest version of a slot here; 0 without slots.
  int64_t first_version() const;
  // Payload that came in (accepted or not) and that answers took out. Initialize and the
  // pulls for step 0 are the first distribution.
  ExchangeTraffic traffic() const { return traffic_.totals(); }

 private:
  // The slot that a request is about, or why the request is none.
  absl::StatusOr<ShardSlot*> Find(int slot, int rank, int64_t step) const;

  const int workers_;
  const std::unique_ptr<const ConsistencyPolicy> policy_;
  int64_t largest_slot_bytes_ = 0;  // Set up once; so is the next.
  int64_t bytes_ = 0;
  LinkCounters traffic_;
  std::map<int, std::unique_ptr<ShardSlot>> slots_;  // By slot index; set up once.

  Mutex mutex_;
  absl::Status abort_reason_ ABSL_GUARDED_BY(mutex_);  // OK until aborted.
};

}  // namespace psring

#endif  // PSRING_SERVER_PARAMETER_SHARD_H_
