// The links of emulated hosts, for people to read.
#ifndef PSRING_EXPERIMENTS_HOSTS_LINK_TABLES_H_
#define PSRING_EXPERIMENTS_HOSTS_LINK_TABLES_H_

#include <string>
#include <vector>

#include "experiments/arm_runs.h"

namespace psring {

// Of the first run of each arm that had hosts and came to its end. Empty where none did.

// What every link carried over the whole run, explained (LinkAudit).
std::string LinkAuditTable(const std::vector<ArmRuns>& arms);

// The busiest link of each arm (LinkUsage), and a note for each arm whose processors were
// too busy for its times to be the links'.
std::string HotSpotTable(const std::vector<ArmRuns>& arms);

}  // namespace psring

#endif  // PSRING_EXPERIMENTS_HOSTS_LINK_TABLES_H_
