// What each endpoint sends and receives in one step, by formula alone. Pure.
#ifndef PSRING_EXPERIMENTS_TRAFFIC_FORMULA_H_
#define PSRING_EXPERIMENTS_TRAFFIC_FORMULA_H_

#include <cstdint>
#include <string>
#include <vector>

#include "common/job_plan.h"
#include "common/slot_plan.h"
#include "common/wire_type.h"
#include "proto/coordinator.pb.h"

namespace psring {

// Payload bytes per step and direction.
struct EndpointFormula {
  std::string name;  // "worker 0"
  std::string role;  // "worker", "server"
  int64_t out = 0;
  int64_t in = 0;
  // Of these, what the process exchanges with the one that shares its host.
  int64_t local_out = 0;
  int64_t local_in = 0;
  // Collectives, or exchanges of a slot, that a worker takes per step.
  int64_t operations = 0;
};

// Gradient bytes of one worker's pushes to one server in a step. Parameters come back as
// floats, whatever the wire.
int64_t PushBytes(const WireType& wire, const SlotPlan& plan, int server);

// Workers in rank order, then servers.
std::vector<EndpointFormula> StepTraffic(const JobSpec& spec, const JobPlan& plan);

}  // namespace psring

#endif  // PSRING_EXPERIMENTS_TRAFFIC_FORMULA_H_
