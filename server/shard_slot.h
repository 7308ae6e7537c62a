// One slot of a parameter shard: its parameters and optimizer state, its open round, its
// parked pulls.
#ifndef PSRING_SERVER_SHARD_SLOT_H_
#define PSRING_SERVER_SHARD_SLOT_H_

#include <cstdint>
#include <functional>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "absl/functional/function_ref.h"
#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "common/contributors.h"
#include "common/link_counters.h"
#include "common/memory_gauge.h"
#include "common/mutex.h"
#include "common/optimizer.h"
#include "common/partition.h"
#include "common/slot_plan.h"
#include "common/step_constants.h"
#include "server/consistency_policy.h"
#include "server/contribution.h"
#include "server/contribution_budget.h"
#include "server/open_round.h"
#include "server/parameter_shard.h"
#include "server/parked_pulls.h"
#include "server/round_fold.h"
#include "server/slot_parameters.h"
#include "server/slot_state.h"
#include "server/worker_clocks.h"

namespace psring {

// A part of ParameterShard, whose header is the contract. Its methods hold the lock only
// inside; Done callbacks run after it is released. Once every buffer has been used,
// pushes and pulls allocate nothing.
class ShardSlot {
 public:
  // Everything pointed to, and the policy's shard, outlives the slot.
  ShardSlot(const Slot& slot, const ParameterShard::Options& options,
            const ConsistencyPolicy* policy, LinkCounters* traffic);

  absl::Status Initialize(const FloatPieces& parameters);
  absl::Status Push(const PushInfo& push, Contribution contribution);
  PullTicket Pull(const PullInfo& asked, PullDone done);
  void CancelPull(int64_t id);
  absl::Status Leave(int rank);
  absl::StatusOr<SlotSnapshot> Snapshot(int64_t step) const;
  void Abort(const absl::Status& reason);

  SlotState State();

  // What parked pulls wait for; empty without any.
  std::string Awaited() const;
  int64_t version() const;
  const Range& range() const { return slot_.range; }
  int64_t parked_pulls() const;

 private:
  // InvalidArgument where it has another size than the slot; `what` says whose it is.
  absl::Status CheckCount(const FloatPieces& values,
                          absl::FunctionRef<std::string()> what) const;
  // Why the push cannot be counted; OK where it can, or has been.
  absl::Status CheckPushLocked(const PushInfo& push) const
      ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  // Does what the policy says to a push; `held` is empty afterwards. The constants are
  // the next update's.
  absl::Status TakeLocked(HeldPush held, const StepConstants& constants)
      ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  // A waiting push whose turn it is.
  std::optional<HeldPush> NextDueLocked() ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  bool RoundClosesLocked() const ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  // Makes the next version of what is in round_.
  void UpdateLocked(StepConstants constants) ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  // A contribution has been applied onto the current version, or dropped.
  void CountLocked(const PushInfo& push, ContributionRecord::Outcome outcome)
      ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  void KeepSnapshotsLocked() ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);

  SlotVersion CurrentLocked() const ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  // The version that the pull may have now, if any.
  std::optional<int64_t> VersionForLocked(const PullInfo& pull) const
      ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  PullAnswer AnswerLocked(const PullInfo& pull, int64_t version)
      ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  // Takes the parked pulls that may now proceed, because of what `rank` has done, for
  // Finish.
  ParkedPulls::List AnswerParkedLocked(int rank) ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  // Calls the pulls with their answers, or with the error if it is one.
  void Finish(ParkedPulls::List pulls, const absl::Status& error = absl::OkStatus())
      ABSL_LOCKS_EXCLUDED(mutex_);
  std::string AwaitedLocked(const PullInfo& pull) const
      ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);

  const Slot slot_;
  const int workers_;
  const ShardStart start_;
  const int64_t steps_;
  const int64_t snapshot_interval_;
  const Contributors contributors_;
  const StaleUpdates stale_updates_;
  const ConsistencyPolicy* const policy_;
  const ConsistencyPromise promise_;
  // By rank: the step that a worker's first pull is for.
  const std::vector<int64_t> first_steps_;
  LinkCounters* const traffic_;
  const TimeSource* const time_;
  RoundFold fold_ ABSL_GUARDED_BY(mutex_);
  const std::shared_ptr<StepConstantsSource> constants_;
  const std::function<void(const ContributionRecord&)> on_contribution_;
  const std::shared_ptr<MemoryGauge> contribution_memory_;

  mutable Mutex mutex_;
  absl::Status aborted_ ABSL_GUARDED_BY(mutex_);  // OK until aborted.
  bool initialized_ ABSL_GUARDED_BY(mutex_) = false;
  int64_t version_ ABSL_GUARDED_BY(mutex_);
  int64_t counted_ ABSL_GUARDED_BY(mutex_);  // Contributions applied or dropped.
  // How long it took to make the current version.
  absl::Duration working_ ABSL_GUARDED_BY(mutex_) = absl::ZeroDuration();
  WorkerClocks clocks_ ABSL_GUARDED_BY(mutex_);
  std::optional<ContributionBudget> budget_ ABSL_GUARDED_BY(mutex_);  // Slot 0's.
  SlotParameters parameters_ ABSL_GUARDED_BY(mutex_);
  SliceOptimizer optimizer_ ABSL_GUARDED_BY(mutex_);
  // Or the one push that is being applied.
  OpenRound round_ ABSL_GUARDED_BY(mutex_);
  std::vector<HeldPush> waiting_ ABSL_GUARDED_BY(mutex_);  // For their turn.
  ParkedPulls parked_ ABSL_GUARDED_BY(mutex_);
  // The versions before the current one that the policy may still ask for.
  std::vector<SlotVersion> older_ ABSL_GUARDED_BY(mutex_);
  // By rank, of its last answered pull: the parameters, kept for delay compensation only,
  // and the clock lag.
  std::vector<SlotVersion> pulled_ ABSL_GUARDED_BY(mutex_);
  std::vector<int64_t> clock_lag_ ABSL_GUARDED_BY(mutex_);
  std::map<int64_t, SlotSnapshot> snapshots_ ABSL_GUARDED_BY(mutex_);  // By step.
};

}  // namespace psring

#endif  // PSRING_SERVER_SHARD_SLOT_H_
