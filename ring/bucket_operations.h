// Which operations one bucket of a ring arm takes in a step. Pure.
#ifndef PSRING_RING_BUCKET_OPERATIONS_H_
#define PSRING_RING_BUCKET_OPERATIONS_H_

#include <span>

#include "proto/experiment.pb.h"
#include "ring/operation_header.h"

namespace psring {

// In order, and each on as many elements as the bucket has.
inline std::span<const OperationKind> BucketOperations(const RingMode& settings) {
  static constexpr OperationKind kUsual[] = {OperationKind::kAllReduce};
  static constexpr OperationKind kSharded[] = {OperationKind::kReduceScatter,
                                               OperationKind::kAllGather};
  if (settings.sharded_optimizer()) return kSharded;
  return kUsual;
}

}  // namespace psring

#endif  // PSRING_RING_BUCKET_OPERATIONS_H_
