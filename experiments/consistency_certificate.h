// Whether servers did with every contribution what the arm's mode promises. Pure.
#ifndef PSRING_EXPERIMENTS_CONSISTENCY_CERTIFICATE_H_
#define PSRING_EXPERIMENTS_CONSISTENCY_CERTIFICATE_H_

#include "experiments/arm_records.h"
#include "experiments/certificate.h"
#include "proto/coordinator.pb.h"

namespace psring {

// In every slot:
//   1. workers * steps contributions were counted, each step of a worker once;
//   2. the versions are 0, 1, 2, ... without a gap, and each update was made of as many
//      contributions as promised (fewer only at the end, when workers had left);
//   3. contributions were dropped only where the mode may drop;
//   4. staleness and clock lag are as promised.
// Names the first slot that differs. Not applicable without servers.
Certificate CertifyConsistency(const JobSpec& spec, const ArmRecords& records);

}  // namespace psring

#endif  // PSRING_EXPERIMENTS_CONSISTENCY_CERTIFICATE_H_
