// Runs one arm: its coordinator here, its processes on this machine or wherever the user
// starts them.
#ifndef PSRING_EXPERIMENTS_ARM_RUNNER_H_
#define PSRING_EXPERIMENTS_ARM_RUNNER_H_

#include <string>

#include "absl/status/status.h"
#include "absl/time/time.h"
#include "experiments/child_processes.h"
#include "experiments/database_writer.h"
#include "experiments/hosts/host_network.h"
#include "experiments/progress.h"
#include "proto/coordinator.pb.h"

namespace psring {

struct ArmRunOptions {
  std::string worker_binary;
  std::string server_binary;
  std::string log_folder;  // One file per process.
  std::string title;       // For whoever watches: "async, seed 3".
  // Processes are started by hand: prints what to start, then waits for them.
  bool external = false;
  // Where the coordinator listens, and how others reach it. Port 0: any free one.
  std::string listen = "127.0.0.1:0";
  std::string advertise = "127.0.0.1";
  // Where each process has an emulated host of its own; outlives the call. The
  // coordinator listens in their control network.
  const HostNetwork* hosts = nullptr;
  // For every process to join, and handed to the processes for their own waits.
  absl::Duration rendezvous_timeout = absl::Seconds(60);
};

// Blocks until every process of the arm has ended and what they reported is in the
// database, as one run of it. An error is the arm's first one and names the process; by
// then every process here has ended, and those elsewhere have been told. A database that
// cannot be written ends the arm, too.
absl::Status RunArm(const JobSpec& spec, const ArmRunOptions& options,
                    DatabaseWriter* writer, ChildProcesses* children,
                    ProgressDisplay* progress);

}  // namespace psring

#endif  // PSRING_EXPERIMENTS_ARM_RUNNER_H_
