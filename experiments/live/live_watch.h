// Keeps of a run's records what can be seen of it while it goes on.
#ifndef PSRING_EXPERIMENTS_LIVE_LIVE_WATCH_H_
#define PSRING_EXPERIMENTS_LIVE_LIVE_WATCH_H_

#include <cstdint>
#include <deque>
#include <map>
#include <optional>
#include <string>
#include <vector>

#include "absl/time/time.h"
#include "common/mutex.h"
#include "common/time_source.h"
#include "experiments/hosts/host_plan.h"
#include "experiments/hosts/link_reading.h"
#include "experiments/live/live_state.h"
#include "experiments/run_watcher.h"
#include "proto/coordinator.pb.h"
#include "proto/record.pb.h"

namespace psring {

// Rates are of about the last second:
// - with emulated hosts, of each link, as the kernel has counted its frames;
// - else of each worker, the payload that its step records have counted, and with servers
//   what all of them together must have moved, which is what the workers have.
// Records come in batches, so a rate is that of some moments ago. Any thread.
class LiveWatch final : public RunWatcher {
 public:
  // `time` outlives this.
  explicit LiveWatch(const TimeSource* time) : time_(time) {}

  void Begin(const JobSpec& spec) override;
  void Reported(const Member& from, const RecordBatch& batch) override;
  void Sampled(const HostsReading& reading) override;
  void End() override;

  // Links and workers of the run; the rest is others' to fill in.
  LiveState State() const;

  // The same and more of one run, for metrics.
  struct Seen {
    JobSpec spec;
    LiveState state;
    std::optional<HostsReading> reading;  // The latest; none without emulated hosts.
  };
  // Nothing between two runs.
  std::optional<Seen> Now() const;

 private:
  // A counter's values at some moments of one clock.
  struct Moment {
    absl::Duration time;
    int64_t out = 0;
    int64_t in = 0;
  };
  struct Rate {
    double out_bytes_s = 0;
    double in_bytes_s = 0;
  };
  struct Counted {
    std::deque<Moment> moments;
    absl::Duration heard = absl::ZeroDuration();  // On `time_`, of the last.

    // Forgets what is no longer needed.
    void Add(const Moment& moment, absl::Duration now);
    // Where nothing has been heard for long, as if nothing had moved since.
    Rate At(absl::Duration now) const;
  };
  struct WorkerWatch {
    int64_t steps = 0;
    std::optional<int64_t> clock_lag;
    Counted payload;
  };

  LiveState StateAt(absl::Duration now) const ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);

  const TimeSource* const time_;
  mutable Mutex mutex_;
  std::optional<JobSpec> spec_ ABSL_GUARDED_BY(mutex_);
  // Empty where the run has no emulated hosts.
  std::vector<LinkDirection> links_ ABSL_GUARDED_BY(mutex_);
  std::map<std::string, Counted> hosts_ ABSL_GUARDED_BY(mutex_);  // By name.
  std::optional<HostsReading> reading_ ABSL_GUARDED_BY(mutex_);
  std::map<int64_t, WorkerWatch> workers_ ABSL_GUARDED_BY(mutex_);  // By rank.
};

}  // namespace psring

#endif  // PSRING_EXPERIMENTS_LIVE_LIVE_WATCH_H_
