// The main job: runs the arms of an experiment one after the other and compares them.
#ifndef PSRING_EXPERIMENTS_COMPARE_H_
#define PSRING_EXPERIMENTS_COMPARE_H_

#include <string>
#include <vector>

#include "absl/status/status.h"

namespace psring {

struct CompareOptions {
  std::string config_path;
  std::vector<std::string> overrides;  // "training.steps=50"
  std::string arm;                     // Only this one; empty: all.
  std::string out;                     // Run folder; empty: runs/NAME-TIME.
  bool print_config = false;           // Prints the resolved configuration, runs nothing.
  bool dry_run = false;                // Prints the plan, runs nothing.
  // What the runs continue from (experiments/restore.h); empty: nothing.
  std::string restore;
  bool restore_previous = false;
  // Only with `arm`: processes are started by hand, on any hosts.
  bool external = false;
  std::string listen;     // HOST:PORT of the coordinator.
  std::string advertise;  // How others reach that host; empty: as in `listen`.
  std::string job;        // Empty: made up.
  double rendezvous_timeout_seconds = 60;
  std::string tensorboard;  // Folder for TensorBoard's event files; empty: none.
  // HOST:PORT of the launcher's metrics; its processes are at the ports after it. Empty:
  // nobody answers Prometheus.
  std::string metrics;
};

// Results go to stdout, everything else to stderr. Errors have been shown to nobody yet;
// DataLoss (exit code 3): a certificate failed, or an expectation is not met, and the
// results say which; with exit code 6: a gradient was not finite, which ended its arm and
// no other.
absl::Status Compare(const CompareOptions& options);

}  // namespace psring

#endif  // PSRING_EXPERIMENTS_COMPARE_H_
