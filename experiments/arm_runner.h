// Runs one arm: its coordinator here, its processes on this machine or wherever the user
// starts them.
#ifndef PSRING_EXPERIMENTS_ARM_RUNNER_H_
#define PSRING_EXPERIMENTS_ARM_RUNNER_H_

#include <optional>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/time/time.h"
#include "experiments/child_processes.h"
#include "experiments/database_writer.h"
#include "experiments/hosts/host_network.h"
#include "experiments/live/live_display.h"
#include "experiments/live/live_watch.h"
#include "experiments/run_watcher.h"
#include "proto/coordinator.pb.h"

namespace psring {

// Where the launcher and its processes answer Prometheus: the launcher at the port, the
// k-th process that an arm starts, servers first, k ports further, counted from 1.
struct MetricsAddresses {
  std::string host;  // As in HOST:PORT. Not of emulated hosts, who have their own.
  int port = 0;
};

struct ArmRunOptions {
  std::string worker_binary;
  std::string server_binary;
  std::string log_folder;  // One file per process.
  std::string title;       // For whoever watches: "async, seed 3".
  // Of all runs, from 1; 0: it is the only one.
  int position = 0;
  int positions = 0;
  // Processes are started by hand: prints what to start, then waits for them.
  bool external = false;
  // Where the coordinator listens, and how others reach it. Port 0: any free one.
  std::string listen = "127.0.0.1:0";
  std::string advertise = "127.0.0.1";
  // Where each process has an emulated host of its own; outlives the call. The
  // coordinator listens in their control network.
  const HostNetwork* hosts = nullptr;
  std::optional<MetricsAddresses> metrics = std::nullopt;  // None: they do not.
  // They outlive the call.
  std::vector<RunWatcher*> watchers;
  const LiveWatch* watch = nullptr;  // One of these, whose state is shown; null: none is.
  // For every process to join, and handed to the processes for their own waits.
  absl::Duration rendezvous_timeout = absl::Seconds(60);
};

// Blocks until every process of the arm has ended and what they reported is in the
// database, as one run of it. An error is the arm's first one and names the process; by
// then every process here has ended, and those elsewhere have been told. A database that
// cannot be written ends the arm, too.
//
// A SIGTERM that comes after a worker's last step, where there would have been a
// checkpoint, lets the arm come to its end, and is `stopped` then, which else is OK:
// nothing is to be started after it.
absl::Status RunArm(const JobSpec& spec, const ArmRunOptions& options,
                    DatabaseWriter* writer, ChildProcesses* children,
                    LiveDisplay* display, absl::Status* stopped);

}  // namespace psring

#endif  // PSRING_EXPERIMENTS_ARM_RUNNER_H_
