// What each endpoint sends and receives in one step, by formula alone. Pure.
#ifndef PSRING_EXPERIMENTS_TRAFFIC_FORMULA_H_
#define PSRING_EXPERIMENTS_TRAFFIC_FORMULA_H_

#include <cstdint>
#include <string>
#include <vector>

#include "common/job_plan.h"
#include "proto/coordinator.pb.h"

namespace psring {

// Payload bytes per step and direction.
struct EndpointFormula {
  std::string name;  // "worker 0"
  std::string role;  // "worker", "server"
  int64_t out = 0;
  int64_t in = 0;
};

// Workers in rank order, then servers.
std::vector<EndpointFormula> StepTraffic(const JobSpec& spec, const JobPlan& plan);

}  // namespace psring

#endif  // PSRING_EXPERIMENTS_TRAFFIC_FORMULA_H_
