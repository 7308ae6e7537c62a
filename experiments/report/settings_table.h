// In what the arms of a comparison were set differently. Pure.
#ifndef PSRING_EXPERIMENTS_REPORT_SETTINGS_TABLE_H_
#define PSRING_EXPERIMENTS_REPORT_SETTINGS_TABLE_H_

#include <vector>

#include "experiments/result_table.h"
#include "proto/coordinator.pb.h"

namespace psring {

// A column for each arm, a row for each field of its resolved settings (architecture,
// cluster, optimizer, buckets, wire) that not all arms have alike: "-" where an arm has
// no such field. `specs` are those of the runs; of an arm's runs the first one counts. No
// rows where there is but one arm.
ResultRows DifferentSettings(const std::vector<JobSpec>& specs);

}  // namespace psring

#endif  // PSRING_EXPERIMENTS_REPORT_SETTINGS_TABLE_H_
