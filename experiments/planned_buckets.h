// The buckets that an arm exchanges, and how each is summed, by its job alone. Pure.
#ifndef PSRING_EXPERIMENTS_PLANNED_BUCKETS_H_
#define PSRING_EXPERIMENTS_PLANNED_BUCKETS_H_

#include <cstdint>
#include <optional>
#include <vector>

#include "common/layout.h"
#include "proto/coordinator.pb.h"
#include "proto/experiment.pb.h"

namespace psring {

struct PlannedBucket {
  int64_t bytes = 0;  // Of one worker's gradients, as floats.
  // None where servers sum, or nobody. In shared memory the sum is RING's, bit for bit.
  std::optional<RingMode::Algorithm> algorithm = {};

  friend bool operator==(const PlannedBucket&, const PlannedBucket&) = default;
};

// In order of launch; `buckets` are those of the job's plan (common/job_plan.h). The
// ranks go by the same function of the same settings, and the traffic certificate
// compares what they moved with the algorithm's formula.
std::vector<PlannedBucket> PlannedBuckets(const JobSpec& spec, const BucketPlan& buckets);

}  // namespace psring

#endif  // PSRING_EXPERIMENTS_PLANNED_BUCKETS_H_
