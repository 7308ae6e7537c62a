// Arms for tests, before and after they have run.
#ifndef PSRING_EXPERIMENTS_ARM_RESULT_TEST_UTIL_H_
#define PSRING_EXPERIMENTS_ARM_RESULT_TEST_UTIL_H_

#include "experiments/arm_result.h"
#include "proto/coordinator.pb.h"
#include "proto/experiment.pb.h"

namespace psring {

// Jobs of 2 steps with two buckets, 3 elements and then 7: each step moves 40 bytes of
// gradients. They are called "ring", "servers" or "servers by rank", and "local".
JobSpec RingSpec(int workers);
JobSpec ServersSpec(int workers, int servers, Sync::Order order);
JobSpec LocalSpec();

// The same with one server, so that there are two slots; called as their mode.
JobSpec BackupSpec(int workers, int spares);
JobSpec BoundedSpec(int workers, int bound);
JobSpec AsyncSpec(int workers);
JobSpec FixedDelaySpec(int workers, int delay);

// Every field is set but `error`, no two numbers of a kind are the same, and one
// certificate fails while the others pass.
ArmResult FullArmResult();

}  // namespace psring

#endif  // PSRING_EXPERIMENTS_ARM_RESULT_TEST_UTIL_H_
