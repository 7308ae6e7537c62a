// What the mode of an arm is called, and what it promises. Pure.
#ifndef PSRING_EXPERIMENTS_ARM_MODE_H_
#define PSRING_EXPERIMENTS_ARM_MODE_H_

#include <optional>
#include <string>
#include <vector>

#include "proto/coordinator.pb.h"
#include "server/consistency_policy.h"

namespace psring {

// "parameter server, sync, ring order", "parameter server, bounded(4)", "parameter
// server, async, scale ONE", "ring all-reduce" (experiments/ring_config.h), "local".
// Settings of `stale_updates` are there where they are not the default, and so is what
// gradients are on their way: "ring all-reduce, gradients as bf16".
std::string ModeOf(const JobSpec& spec);

// What the servers of a checked arm promise; none where it has no servers.
std::optional<ConsistencyPromise> PromiseOf(const JobSpec& spec);

// Whether every worker makes spec.steps() steps, and all have the same parameters before
// each.
bool InLockstep(const JobSpec& spec);

// A line for each arm, with everything in which arms can differ: mode, processes and,
// where they are not the same for all, the optimizer and the buckets.
std::string DescribeArms(const std::vector<JobSpec>& arms);

}  // namespace psring

#endif  // PSRING_EXPERIMENTS_ARM_MODE_H_
