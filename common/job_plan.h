// From a job's description to the layout, buckets and slots that all its processes share.
// Pure: the same description gives the same plan everywhere.
#ifndef PSRING_COMMON_JOB_PLAN_H_
#define PSRING_COMMON_JOB_PLAN_H_

#include <cstdint>
#include <optional>

#include "absl/status/status.h"
#include "common/contributors.h"
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

// Of a job whose plan has been checked.
JobPlan PlanJob(const JobSpec& spec);

// InvalidArgument: the plan would have more slots than kMostSlots. Takes no memory for
// them.
absl::Status CheckPlan(const JobSpec& spec);

// The order of the job's workers: the experiment's, which names each of them once, or
// that of their ranks.
RingOrder RingOrderOf(const JobSpec& spec);

// The settings of the job's emulated hosts: the arm's own, else the experiment's. Null:
// it has none.
const Hosts* HostsOf(const JobSpec& spec);

// The rank of the server with which the worker of this rank shares its host, if any, and
// of the worker with which a server does: they are the same.
std::optional<int> PeerOnHost(const JobSpec& spec, int rank);

// Who has samples in which step.
Contributors ContributorsOf(const JobSpec& spec);

// Appends the layout's tensors to the description.
void DescribeLayout(const ParameterLayout& layout, JobSpec* spec);

// Whether an update is everybody's mean, so that no worker ends a step that another does
// not make.
bool KeepsStep(const JobSpec& spec);

// The step that a worker of this rank makes first, and how many contributions the workers
// make to each slot: all, unless the job continues from a checkpoint.
int64_t FirstStepOf(const JobSpec& spec, int rank);
int64_t ContributionsToMake(const JobSpec& spec);

// The most updates that a slot can see in the run: as many as there are steps where each
// is everybody's mean, otherwise as many as there are contributions.
int64_t MostUpdates(const JobSpec& spec);

// A fingerprint (common/fingerprint.h) of everything that two processes must agree on
// before they exchange a tensor: the job's name and its whole description.
uint64_t Fingerprint(const JobSpec& spec);

}  // namespace psring

#endif  // PSRING_COMMON_JOB_PLAN_H_
