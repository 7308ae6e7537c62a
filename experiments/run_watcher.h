// Who is told of a run's records while it goes on, beside its database.
#ifndef PSRING_EXPERIMENTS_RUN_WATCHER_H_
#define PSRING_EXPERIMENTS_RUN_WATCHER_H_

#include "absl/status/status.h"
#include "experiments/hosts/link_reading.h"
#include "proto/coordinator.pb.h"
#include "proto/record.pb.h"

namespace psring {

// Calls come from several threads, also at the same time, but for Begin and End, which
// come before and after all others of a run. One run at a time.
class RunWatcher {
 public:
  virtual ~RunWatcher() = default;

  virtual void Begin(const JobSpec& /*spec*/) {}
  // As in JobObserver; those who report wait meanwhile.
  virtual void Reported(const Member& /*from*/, const RecordBatch& /*batch*/) {}
  virtual void Sampled(const HostsReading& /*reading*/) {}
  virtual void End() {}
  // The first error, which ends the run.
  virtual absl::Status status() const { return absl::OkStatus(); }
};

}  // namespace psring

#endif  // PSRING_EXPERIMENTS_RUN_WATCHER_H_
