// What a configuration must satisfy before anything is started. No I/O.
#ifndef PSRING_EXPERIMENTS_CONFIG_CHECK_H_
#define PSRING_EXPERIMENTS_CONFIG_CHECK_H_

#include <cstdint>

#include "absl/status/status.h"
#include "experiments/config_text.h"
#include "proto/experiment.pb.h"

namespace psring {

// More workers or servers than this are taken for a slip of the pen.
inline constexpr int64_t kMostProcesses = 4096;
// Products with the number of processes or of bytes must not overflow.
inline constexpr int64_t kMostSteps = 1'000'000'000;
// The same for the runs of one arm.
inline constexpr int64_t kMostSeeds = 1000;

// The cluster of one arm: workers, servers and hosts are the arm's own where it has them,
// else the experiment's. Ring arms have no servers, local ones also exactly one worker.
Cluster ResolveCluster(const Experiment& experiment, const Arm& arm);

// OK, or the first thing that is wrong with an experiment as written, before defaults;
// `origins` tells where that stands. 0 is an error where written out and the default
// where left out. What depends on the data set is not checked here.
absl::Status CheckExperiment(const Experiment& experiment, const FieldOrigins& origins);

}  // namespace psring

#endif  // PSRING_EXPERIMENTS_CONFIG_CHECK_H_
