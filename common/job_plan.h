// From a job's description to the layout, buckets and slots that all its processes share.
// Pure: the same description gives the same plan everywhere.
#ifndef PSRING_COMMON_JOB_PLAN_H_
#define PSRING_COMMON_JOB_PLAN_H_

#include <cstdint>

#include "common/layout.h"
#include "common/ring_order.h"
#include "common/slot_plan.h"
#include "proto/coordinator.pb.h"

namespace psring {

struct JobPlan {
  ParameterLayout layout;
  BucketPlan buckets;
  SlotPlan slots;  // Without slots where the job has no servers.
};

JobPlan PlanJob(const JobSpec& spec);

// The order of the job's workers: the experiment's, which names each of them once, or
// that of their ranks.
RingOrder RingOrderOf(const JobSpec& spec);

// Appends the layout's tensors to the description.
void DescribeLayout(const ParameterLayout& layout, JobSpec* spec);

// The most updates that a slot can see in the run: as many as there are steps where each
// is everybody's mean, otherwise as many as there are contributions.
int64_t MostUpdates(const JobSpec& spec);

// A fingerprint (common/fingerprint.h) of everything that two processes must agree on
// before they exchange a tensor: the job's name and its whole description.
uint64_t Fingerprint(const JobSpec& spec);

}  // namespace psring

#endif  // PSRING_COMMON_JOB_PLAN_H_
