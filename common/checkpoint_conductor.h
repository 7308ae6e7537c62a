// The coordinator's part in checkpoints: hands out orders, takes replies, and completes
// what has been saved.
#ifndef PSRING_COMMON_CHECKPOINT_CONDUCTOR_H_
#define PSRING_COMMON_CHECKPOINT_CONDUCTOR_H_

#include <cstdint>
#include <functional>
#include <map>
#include <optional>
#include <string>
#include <thread>
#include <vector>

#include "absl/status/status.h"
#include "common/checkpoint_rounds.h"
#include "common/mutex.h"
#include "common/time_source.h"
#include "proto/coordinator.pb.h"

namespace psring {

// Of one job; CheckpointRounds decides what happens. A job without a folder for
// checkpoints makes none. Any thread.
class CheckpointConductor {
 public:
  using Listener = std::function<void(const CheckpointOrder& order)>;
  // Ends the job everywhere.
  using Abort = std::function<void(const absl::Status& reason)>;

  // `time` and what `abort` needs outlive the conductor.
  CheckpointConductor(const JobSpec& spec, const TimeSource* time, Abort abort);
  // Ends once a manifest that is being written has been.
  ~CheckpointConductor();
  CheckpointConductor(const CheckpointConductor&) = delete;
  CheckpointConductor& operator=(const CheckpointConductor&) = delete;

  // Makes a checkpoint as soon as possible. Afterwards, or where there can be none, the
  // job goes on, or where `then` is not OK it is aborted with that reason; but one of
  // which a worker has made its last step comes to its own end.
  void Request(const absl::Status& then = absl::OkStatus());

  void Take(const Member& from, const CheckpointReply& reply);
  // A few times a second.
  void Tick();

  // A listener is told of the latest order, and of all later ones, until it is removed.
  // It may be called in any thread, one call at a time.
  int64_t AddListener(Listener listener);
  void RemoveListener(int64_t id);

  // What has happened since the last call, in words: "checkpoint of step 120: FOLDER",
  // "no checkpoint: worker 1 has made its last step".
  std::vector<std::string> TakeNews();

 private:
  // What is to be done without the lock about what has been decided.
  struct Consequences {
    bool order = false;  // The latest order is a new one.
    absl::Status end;    // Not OK: why the job is to end now.
  };
  // What has just been decided, under the same lock: its order is then the latest, and
  // its end that of what was asked for by then, so that of two threads that decide the
  // later one's counts.
  Consequences NoteLocked(const CheckpointRounds::Outcome& outcome)
      ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  // What was asked for has been done, or will not be; `ends` as in CheckpointRounds.
  // Returns why the job is to end now, if it is.
  absl::Status EndLocked(std::string news, bool ends)
      ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  void Do(const Consequences& consequences) ABSL_LOCKS_EXCLUDED(mutex_);
  // The finisher's thread: completes what has been saved. Not in the thread of whoever
  // said so last, whose heartbeats would not be heard while the disk takes its time.
  void FinishSaved() ABSL_LOCKS_EXCLUDED(mutex_);
  absl::Status WriteManifest(const CheckpointRounds::Saved& saved) const;
  // That of now, whoever decided it: nobody hears an older order after a newer one. One
  // may come twice, or not at all where another has taken its place.
  void SendLatest() ABSL_LOCKS_EXCLUDED(mutex_);

  const JobSpec spec_;
  const TimeSource* const time_;
  const Abort abort_;

  Mutex mutex_;
  CheckpointRounds rounds_ ABSL_GUARDED_BY(mutex_);
  std::optional<CheckpointOrder> latest_ ABSL_GUARDED_BY(mutex_);
  absl::Status then_ ABSL_GUARDED_BY(mutex_);
  std::vector<std::string> news_ ABSL_GUARDED_BY(mutex_);
  CondVar to_finish_;
  std::optional<CheckpointRounds::Saved> saved_ ABSL_GUARDED_BY(mutex_);
  bool ending_ ABSL_GUARDED_BY(mutex_) = false;

  // Held while listeners are called, so that none hears of orders in another order.
  // Before mutex_, where both are held.
  Mutex listeners_mutex_ ABSL_ACQUIRED_BEFORE(mutex_);
  std::map<int64_t, Listener> listeners_ ABSL_GUARDED_BY(listeners_mutex_);
  int64_t last_listener_ ABSL_GUARDED_BY(listeners_mutex_) = 0;

  std::thread finisher_;  // Last: it uses all of the above.
};

}  // namespace psring

#endif  // PSRING_COMMON_CHECKPOINT_CONDUCTOR_H_
