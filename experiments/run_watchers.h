// Who is told of the records of all runs of a comparison, beside its database.
#ifndef PSRING_EXPERIMENTS_RUN_WATCHERS_H_
#define PSRING_EXPERIMENTS_RUN_WATCHERS_H_

#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "common/metrics_server.h"
#include "common/time_source.h"
#include "experiments/arm_runner.h"
#include "experiments/live/live_watch.h"
#include "experiments/run_watcher.h"
#include "experiments/tensorboard/tensorboard_writer.h"
#include "proto/coordinator.pb.h"

namespace psring {

// The addresses that HOST:PORT means. InvalidArgument: it is not of that form, there are
// not so many ports, or something else listens there (where the processes are on this
// machine and in its network).
absl::StatusOr<MetricsAddresses> CheckMetrics(const std::string& host_and_port,
                                              const std::vector<JobSpec>& specs,
                                              bool external);

// Threads as in MetricsServer.
class RunWatchers {
 public:
  // `tensorboard`: the folder, checked; empty: none. `on_hosts`: psring has entered a
  // network of its own. InvalidArgument: nobody can listen there.
  static absl::StatusOr<std::unique_ptr<RunWatchers>> Start(
      const std::string& tensorboard, const std::optional<MetricsAddresses>& metrics,
      bool on_hosts);

  const LiveWatch& live() const { return live_; }
  std::vector<RunWatcher*> all();

 private:
  explicit RunWatchers(const std::string& tensorboard);

  const RealTime time_;
  LiveWatch live_;
  std::optional<TensorBoardWriter> tensorboard_;
  std::unique_ptr<MetricsServer> metrics_server_;
};

}  // namespace psring

#endif  // PSRING_EXPERIMENTS_RUN_WATCHERS_H_
