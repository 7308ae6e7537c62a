#include "experiments/planned_buckets.h"

#include "common/wire_type.h"
#include "ring/algorithm_by_size.h"

namespace psring {

std::vector<PlannedBucket> PlannedBuckets(const JobSpec& spec,
                                          const BucketPlan& buckets) {
  std::vector<PlannedBucket> planned;
  for (const Bucket& bucket : buckets.buckets) {
    planned.push_back({.bytes = bucket.range.count * int64_t{sizeof(float)}});
  }
  if (!spec.arm().has_ring()) return planned;
  const AlgorithmBySize algorithms(spec.arm().ring());
  const WireType wire = spec.arm().wire();
  for (size_t i = 0; i < planned.size(); ++i) {
    planned[i].algorithm =
        algorithms.For(wire.EncodedBytes(buckets.buckets[i].range.count));
  }
  return planned;
}

}  // namespace psring
