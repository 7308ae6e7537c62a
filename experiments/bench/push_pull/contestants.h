// The processes of each contestant of `psring bench push-pull`. Pure.
#ifndef PSRING_EXPERIMENTS_BENCH_PUSH_PULL_CONTESTANTS_H_
#define PSRING_EXPERIMENTS_BENCH_PUSH_PULL_CONTESTANTS_H_

#include <string>
#include <vector>

#include "experiments/bench/processes.h"
#include "proto/bench.pb.h"

namespace psring {

// In the order of the names: servers first, then workers, all of them `program`. `folder`
// is the launcher's own.
std::vector<ContestantProcesses> PlanPushPullProcesses(
    const std::vector<std::string>& contestants, const PushPullJob& job,
    const std::string& program, const std::string& folder);

}  // namespace psring

#endif  // PSRING_EXPERIMENTS_BENCH_PUSH_PULL_CONTESTANTS_H_
