// From run.db back to what an arm's results are made of.
#ifndef PSRING_EXPERIMENTS_RUN_READER_H_
#define PSRING_EXPERIMENTS_RUN_READER_H_

#include <cstdint>
#include <string>

#include "absl/status/statusor.h"
#include "experiments/arm_records.h"

namespace psring {

// The committed records of the arm's run with that seed, while it is written or
// afterwards. Steps come without the times of their buckets, and of a run that has not
// ended without the causes of exposed time. NotFound: no such run;
// Internal: the file cannot be read, or is of another schema version.
absl::StatusOr<ArmRecords> ReadArm(const std::string& path, const std::string& name,
                                   uint64_t seed);

}  // namespace psring

#endif  // PSRING_EXPERIMENTS_RUN_READER_H_
