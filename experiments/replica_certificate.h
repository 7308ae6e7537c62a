// Whether all workers of an arm had the same parameters. Pure.
#ifndef PSRING_EXPERIMENTS_REPLICA_CERTIFICATE_H_
#define PSRING_EXPERIMENTS_REPLICA_CERTIFICATE_H_

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "experiments/arm_records.h"
#include "experiments/certificate.h"
#include "proto/coordinator.pb.h"

namespace psring {

// The first checked step after which the ranks did not have the same parameters.
struct ReplicaDifference {
  int64_t step = 0;
  std::vector<uint64_t> digests;  // By rank.
  // What more than half of the ranks have, if anything.
  std::optional<uint64_t> majority = std::nullopt;
};

// None where there is no such step, or workers need not have the same parameters. Of a
// run that has ended early, as far as all ranks have reported their steps.
std::optional<ReplicaDifference> FindReplicaDifference(const JobSpec& spec,
                                                       const ArmRecords& records);

// "rank 1 differs from the others at step 50, in tensor layer0.weight"; without a
// majority "ranks 0 and 1 differ at step 50, in tensor layer0.weight".
Certificate FailOf(const ReplicaDifference& difference, const JobSpec& spec,
                   const ArmRecords& records);

// Of a run that came to its end. All workers must have made all steps, and every step
// that one checked must have been checked by all, with the same digest. Not applicable
// where workers need not have the same parameters.
Certificate CertifyReplicas(const JobSpec& spec, const ArmRecords& records);

}  // namespace psring

#endif  // PSRING_EXPERIMENTS_REPLICA_CERTIFICATE_H_
