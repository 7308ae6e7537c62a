// What each process has sent and received, beside the formula. Pure.
#ifndef PSRING_EXPERIMENTS_TRAFFIC_AUDIT_H_
#define PSRING_EXPERIMENTS_TRAFFIC_AUDIT_H_

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "experiments/arm_records.h"
#include "experiments/certificate.h"
#include "proto/coordinator.pb.h"

namespace psring {

struct EndpointTraffic {
  std::string name;
  std::string role;
  // That the formula counts: a worker's own; for a server, those of all workers together
  // divided by their number.
  int64_t steps = 0;
  // Over all steps; the first distribution of parameters and snapshots are apart.
  int64_t payload_out = 0;
  int64_t payload_in = 0;
  int64_t formula_out = 0;
  int64_t formula_in = 0;
  int64_t initial_out = 0;
  int64_t initial_in = 0;
  int64_t snapshot_out = 0;
  int64_t snapshot_in = 0;
  // Of a ring's links, where it is known (common/gradient_exchange.h).
  std::optional<double> awaiting_bytes_seconds = std::nullopt;
  std::optional<double> awaiting_room_seconds = std::nullopt;
  std::optional<int64_t> retransmissions = std::nullopt;
};

// Of each process of the arm, workers first.
std::vector<EndpointTraffic> TrafficOf(const JobSpec& spec, const ArmRecords& records);

// Whether payload and formula are equal everywhere. `endpoints` are those of TrafficOf.
Certificate CertifyTraffic(const JobSpec& spec, const ArmRecords& records,
                           const std::vector<EndpointTraffic>& endpoints);

}  // namespace psring

#endif  // PSRING_EXPERIMENTS_TRAFFIC_AUDIT_H_
