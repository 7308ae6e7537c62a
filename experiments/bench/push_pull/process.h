// A process of `psring bench push-pull`: does with its end what the launcher says.
#ifndef PSRING_EXPERIMENTS_BENCH_PUSH_PULL_PROCESS_H_
#define PSRING_EXPERIMENTS_BENCH_PUSH_PULL_PROCESS_H_

#include <string>

#include "absl/status/status.h"
#include "experiments/bench/push_pull/ends.h"
#include "proto/bench.pb.h"

namespace psring {

// Both return as ObeyLauncher does. `version` is of a library that the contestant uses.
absl::Status ServePushPull(const std::string& control, const PushPullJob& job, int server,
                           const std::string& version, PushPullServer& end);
absl::Status WorkPushPull(const std::string& control, const PushPullJob& job, int worker,
                          const std::string& version, PushPullWorker& end);

}  // namespace psring

#endif  // PSRING_EXPERIMENTS_BENCH_PUSH_PULL_PROCESS_H_
