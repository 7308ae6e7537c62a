// The links of emulated hosts, for people to read.
#ifndef PSRING_EXPERIMENTS_HOSTS_LINK_TABLES_H_
#define PSRING_EXPERIMENTS_HOSTS_LINK_TABLES_H_

#include <string>
#include <vector>

#include "experiments/arm_runs.h"

namespace psring {

// Of the first run of each arm that had hosts and came to its end. Empty where none did.

// What every link carried over the whole run, explained (LinkAudit). Where that would
// fill more than a screen: of each arm the busiest host's link, and a worker's that
// carries something else.
std::string LinkAuditTable(const std::vector<ArmRuns>& arms);

// The busiest link of each arm (LinkUsage), and a note for each arm that is void, or of
// which that cannot be told (Validity).
std::string HotSpotTable(const std::vector<ArmRuns>& arms);

}  // namespace psring

#endif  // PSRING_EXPERIMENTS_HOSTS_LINK_TABLES_H_
