// Writes down what happens in one arm.
#ifndef PSRING_EXPERIMENTS_ARM_RECORDER_H_
#define PSRING_EXPERIMENTS_ARM_RECORDER_H_

#include <cstdint>
#include <map>
#include <optional>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/strings/string_view.h"
#include "absl/time/time.h"
#include "common/job_observer.h"
#include "common/mutex.h"
#include "experiments/database_writer.h"
#include "experiments/hosts/link_reading.h"
#include "experiments/progress.h"
#include "experiments/replica_watch.h"
#include "proto/coordinator.pb.h"

namespace psring {

// One run of the database, from construction to End. Any thread; what comes in goes to
// the writer's thread, and small totals stay here for whoever watches.
class ArmRecorder final : public JobObserver {
 public:
  // `writer` outlives this and has no other run at the same time.
  ArmRecorder(const JobSpec& spec, DatabaseWriter* writer);

  void Joined(const Hello& process) override;
  void Ended(const Hello& process, const absl::Status& outcome) override;
  void Aborted(const absl::Status& reason) override;
  void Warned(const std::string& text) override;
  void Reported(const Member& from, RecordBatch batch, absl::Duration intake) override;

  // An event that the coordinator does not know of. `process` as in RunDatabase.
  void Note(Severity severity, absl::string_view process, absl::string_view text);

  // What has been read of the links between emulated hosts.
  void Sampled(const HostsReading& reading);

  // Zero steps until every worker has made one.
  ArmProgress Progress() const;

  // The last call: ends the run with its outcome and returns once all is in the file. The
  // writer's first error, if any.
  absl::Status End(const absl::Status& outcome);

 private:
  void Add(std::vector<TensorDigest> digests);

  struct WorkerTotals {
    int64_t steps = 0;
    int64_t samples = 0;
    double loss = 0;  // Of the last step.
    absl::Duration trained = absl::ZeroDuration();
  };

  const int workers_;
  const int64_t first_step_;
  const bool has_loss_;
  DatabaseWriter* const writer_;
  const absl::Duration writer_before_;  // Its processor time that is not this run's.

  mutable Mutex mutex_;
  // Where all workers have the same parameters after each step.
  std::optional<ReplicaWatch> replicas_ ABSL_GUARDED_BY(mutex_);
  std::map<int64_t, WorkerTotals> totals_ ABSL_GUARDED_BY(mutex_);  // By rank.
};

}  // namespace psring

#endif  // PSRING_EXPERIMENTS_ARM_RECORDER_H_
