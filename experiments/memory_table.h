// What workers and servers have had in memory, for people to read.
#ifndef PSRING_EXPERIMENTS_MEMORY_TABLE_H_
#define PSRING_EXPERIMENTS_MEMORY_TABLE_H_

#include <string>
#include <vector>

#include "experiments/arm_runs.h"

namespace psring {

// A row for the workers of each arm and one for its servers: of each purpose the most
// that one of them has had, beside the largest budget of one and the most that was
// resident. Without arms that ended early; empty where there are no others.
std::string MemoryTable(const std::vector<ArmRuns>& arms);

}  // namespace psring

#endif  // PSRING_EXPERIMENTS_MEMORY_TABLE_H_
