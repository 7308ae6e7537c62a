// Whether all workers of an arm had the same parameters. Pure.
#ifndef PSRING_EXPERIMENTS_REPLICA_CERTIFICATE_H_
#define PSRING_EXPERIMENTS_REPLICA_CERTIFICATE_H_

#include "experiments/arm_records.h"
#include "experiments/certificate.h"
#include "proto/coordinator.pb.h"

namespace psring {

// All workers must have made all steps, and every step that one checked must have been
// checked alike by all; names the first that was not. Not applicable where workers need
// not have the same parameters.
Certificate CertifyReplicas(const JobSpec& spec, const ArmRecords& records);

}  // namespace psring

#endif  // PSRING_EXPERIMENTS_REPLICA_CERTIFICATE_H_
