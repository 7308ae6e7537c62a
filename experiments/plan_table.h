// What an arm will be, by formula, before anything is started. Pure.
#ifndef PSRING_EXPERIMENTS_PLAN_TABLE_H_
#define PSRING_EXPERIMENTS_PLAN_TABLE_H_

#include <string>

#include "proto/coordinator.pb.h"
#include "worker/data_set.h"

namespace psring {

// Mode and its settings, compute, what gradients are reduced to, processes, buckets and
// their algorithms, slots, bytes per step, endpoint and direction, memory per process.
std::string PlanTable(const JobSpec& spec, const DataSetShape& data);

}  // namespace psring

#endif  // PSRING_EXPERIMENTS_PLAN_TABLE_H_
