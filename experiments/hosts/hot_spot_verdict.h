// What a comparison on emulated hosts says of its two architectures. Pure.
#ifndef PSRING_EXPERIMENTS_HOSTS_HOT_SPOT_VERDICT_H_
#define PSRING_EXPERIMENTS_HOSTS_HOT_SPOT_VERDICT_H_

#include <string>
#include <vector>

#include "experiments/arm_runs.h"

namespace psring {

// One line, from figures alone: "verdict: one_8: the link of server 0 is the bottleneck,
// 97 % of the time in use and 8.0 x the mean worker's; ring_8 moves 1.75 M per worker
// over every link alike, and its step is 4.6 x shorter".
//
// It is of the arm with servers that has the highest hot-spot factor and of the ring with
// as many workers, with the most workers of which there are both; where there are not
// both, of the one. Where one of them is void, or that cannot be told, the line says that
// instead. Empty where no arm of several workers had hosts.
std::string HotSpotVerdict(const std::vector<ArmRuns>& arms);

}  // namespace psring

#endif  // PSRING_EXPERIMENTS_HOSTS_HOT_SPOT_VERDICT_H_
