#include "experiments/planned_buckets.h"

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
  for (PlannedBucket& bucket : planned) bucket.algorithm = algorithms.For(bucket.bytes);
  return planned;
}

}  // namespace psring
