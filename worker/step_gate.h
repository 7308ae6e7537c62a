// Where a worker stops between two steps, for a checkpoint.
#ifndef PSRING_WORKER_STEP_GATE_H_
#define PSRING_WORKER_STEP_GATE_H_

#include <cstdint>
#include <functional>
#include <limits>
#include <optional>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "common/mutex.h"
#include "proto/coordinator.pb.h"

namespace psring {

// A worker's side of common/checkpoint_rounds.h, whose picture shows the messages. The
// training thread passes it between any two steps, which costs a lock that nobody holds
// for long; it stays there while it has been told to hold.
class StepGate {
 public:
  // Writes the worker's part. Called in the training thread, without a lock.
  using Save =
      std::function<absl::StatusOr<CheckpointPart>(const CheckpointOrder& order)>;
  // Must not block, and not call back.
  using Reply = std::function<void(const CheckpointReply& reply)>;

  // The worker is about to make `first_step`. Without `save` others own all parameters.
  StepGate(int64_t first_step, Save save, Reply reply);

  // The training thread's: all steps before `next_step` have been made, and it is about
  // to begin that one. Errors are the save's, and the reason of an abort.
  absl::Status Pass(int64_t next_step);
  // The last step has been made.
  void Finish();

  // From any thread; neither blocks.
  void Order(const CheckpointOrder& order);
  void Abort(const absl::Status& reason);

  // Whether the training thread is being kept here, and is not saving.
  bool holds() const;

 private:
  static constexpr int64_t kNone = std::numeric_limits<int64_t>::max();

  void HoldLocked(const CheckpointOrder& order) ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  void ReplyLocked(CheckpointReply::Kind kind, int64_t step)
      ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);

  const Save save_;
  const Reply reply_;

  mutable Mutex mutex_;
  CondVar changed_;
  absl::Status aborted_ ABSL_GUARDED_BY(mutex_);  // OK until aborted.
  int64_t next_ ABSL_GUARDED_BY(mutex_);          // Being made, or held before.
  bool holding_ ABSL_GUARDED_BY(mutex_) = false;
  bool finished_ ABSL_GUARDED_BY(mutex_) = false;
  int64_t round_ ABSL_GUARDED_BY(mutex_) = 0;
  int64_t advance_ ABSL_GUARDED_BY(mutex_) = 0;
  int64_t hold_before_ ABSL_GUARDED_BY(mutex_) = kNone;
  bool told_ ABSL_GUARDED_BY(mutex_) = false;  // That it holds, for this order.
  std::optional<CheckpointOrder> save_order_ ABSL_GUARDED_BY(mutex_);  // Not obeyed yet.
  int64_t saved_round_ ABSL_GUARDED_BY(mutex_) = 0;  // An order may come twice.
};

}  // namespace psring

#endif  // PSRING_WORKER_STEP_GATE_H_
