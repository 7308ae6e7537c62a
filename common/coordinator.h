// The coordinator's logic, without gRPC: who belongs to the job, what they have
// published, what they wait for, and why everything stopped.
#ifndef PSRING_COMMON_COORDINATOR_H_
#define PSRING_COMMON_COORDINATOR_H_

#include <cstdint>
#include <functional>
#include <map>
#include <optional>
#include <set>
#include <string>
#include <utility>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "absl/time/time.h"
#include "common/abort_source.h"
#include "common/checkpoint_conductor.h"
#include "common/job_observer.h"
#include "common/liveness.h"
#include "common/mutex.h"
#include "common/step_constants.h"
#include "common/time_source.h"
#include "proto/coordinator.pb.h"

namespace psring {

// Raised whenever two builds could no longer work together.
inline constexpr int kProtocolVersion = 3;

// The most updates that one call of GetSchedule may ask for.
inline constexpr int64_t kMostScheduleUpdates = 1 << 16;

// "worker 1", "server 0".
std::string ToString(const Member& member);

// Holds one job. Any thread. Invariants, each with a test of that name:
//   1. OneProcessPerMember: a member of the job is at most one live process; a second
//      one, a stranger's job, or a rank outside the job is refused by name.
//   2. FirstReasonWins: once aborted, the reason never changes, and every call, parked
//      or to come, returns it.
//   3. LossIsAbort: a member that goes without a goodbye, or with a failure, or is dead
//   or
//      stalled, aborts the job with an error that names it.
class Coordinator {
 public:
  // `spec` is handed to everyone who joins. `time` and `observer` outlive the
  // coordinator.
  Coordinator(JobSpec spec, const TimeSource* time, JobObserver* observer);

  const std::string& job() const { return spec_.job(); }

  // Makes the caller a member. FailedPrecondition: refused (invariant 1).
  absl::StatusOr<JobSpec> Join(const Hello& hello);
  // From a member only; `intake` as in JobObserver.
  void Take(const Member& from, RecordBatch batch, absl::Duration intake);
  // A member's heartbeat.
  void Hear(const Hello& hello, const Activity& activity);
  // Looks for members that are dead or stalled (common/liveness.h) and aborts the job
  // where there is one; returns what to warn of. To be called a few times a second.
  std::vector<std::string> CheckLiveness();
  // The member ends by itself, with its outcome. A failure aborts the job.
  void Leave(const Hello& hello, const absl::Status& outcome);
  // The member went without Leave. `how` continues "worker 1 (...) ".
  void Lose(const Hello& hello, absl::string_view how);

  void Put(const std::string& key, std::string value);
  // Blocks until the key has been put. DeadlineExceeded (exit code 4) names the members
  // that have not joined.
  absl::StatusOr<std::string> Get(const std::string& key, absl::Duration timeout);
  // Blocks until every member has entered the barrier of that name. DeadlineExceeded
  // (exit code 4) names those who have not.
  absl::Status Barrier(const std::string& name, const Member& member,
                       absl::Duration timeout);

  // The optimizer's constants of so many updates from `first_update` on, fewer where the
  // job can make no more. InvalidArgument: the job has no such update, or the count is
  // below 1 or above kMostScheduleUpdates.
  absl::StatusOr<std::vector<StepConstants>> GetSchedule(int64_t first_update,
                                                         int64_t count) const;

  // Orders to members, and their replies.
  CheckpointConductor& checkpoints() { return checkpoints_; }

  // What the clock shows that all processes compare theirs with.
  absl::Duration Now() const { return time_->Elapsed(); }

  // Ends the job everywhere. The first reason counts.
  void Abort(const absl::Status& reason);
  AbortSource& aborts() { return aborts_; }

  // OK while all is well.
  absl::Status status() const { return aborts_.reason(); }
  // Who has not joined yet: "worker 1, server 0"; empty once everyone has.
  std::string missing() const;
  // True once every member has joined and left.
  bool finished() const;

 private:
  using Key = std::pair<int, int>;  // Role, rank.
  struct Process {
    Hello hello;
    bool left = false;
  };
  // What has been heard of a member: its process, if any.
  using Processes = std::map<Key, Process>;

  std::set<Key> Expected() const;
  bool FinishedLocked() const ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  // Names of expected members for which `there` does not hold.
  std::string NamesLocked(const std::function<bool(const Key&)>& there) const
      ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  std::string MissingLocked() const ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  // Waits until `ready` holds, or returns DeadlineExceeded, or the abort's reason.
  absl::Status WaitLocked(const std::function<bool()>& ready, absl::Duration timeout)
      ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);

  const JobSpec spec_;
  const TimeSource* const time_;
  AbortSource aborts_;

  mutable Mutex mutex_;
  CondVar changed_;
  bool aborted_ ABSL_GUARDED_BY(mutex_) = false;
  Processes processes_ ABSL_GUARDED_BY(mutex_);
  std::map<std::string, std::string> values_ ABSL_GUARDED_BY(mutex_);
  std::map<std::string, std::set<Key>> barriers_ ABSL_GUARDED_BY(mutex_);
  LivenessJudge judge_ ABSL_GUARDED_BY(mutex_);

  Mutex observer_mutex_;  // Never held together with mutex_.
  JobObserver* const observer_ ABSL_PT_GUARDED_BY(observer_mutex_);

  CheckpointConductor checkpoints_;  // Last: its thread may abort the job.
};

}  // namespace psring

#endif  // PSRING_COMMON_COORDINATOR_H_
