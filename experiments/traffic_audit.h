// What each process has sent and received: by formula, as the program has counted it and,
// where every process has an emulated host, as the kernel has counted it. Pure.
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

// One direction of a host's link over the whole run. Its bytes are explained by parts
// that add up to them:
//
//   kernel = payload + other payload + framing + headers + rest
//
// Payload is that of all processes on the host without what they send each other, which
// no link carries.
struct LinkAudit {
  int64_t kernel = 0;   // Frames that have left the link's queue, headers included.
  int64_t packets = 0;  // Of them, acknowledgements without data included.
  int64_t formula = 0;
  int64_t payload = 0;  // Of the steps; equal to the formula, or the certificate fails.
  // The first distribution of parameters, and snapshots.
  int64_t other_payload = 0;
  // What the connections to other hosts carried beside payload (`wire`), where that is
  // known; else it is in the rest.
  std::optional<int64_t> framing = std::nullopt;
  // Ethernet, IP and TCP with timestamps, of each packet.
  int64_t headers = 0;
  // What has been sent again, options of packets (at the start of a connection and after
  // losses), ARP, whose packets are shorter than `headers` has it.
  int64_t rest = 0;
  int64_t resent = 0;  // Segments that the host has sent again; of `out`.
  int64_t dropped = 0;
};

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
  // In each step of a worker, by formula: collectives, or exchanges of a slot.
  int64_t formula_operations = 0;
  int64_t initial_out = 0;
  int64_t initial_in = 0;
  int64_t snapshot_out = 0;
  int64_t snapshot_in = 0;
  // What of it a worker and a server that share a host have exchanged: of the payload, by
  // formula, and of the rest.
  int64_t local_payload_out = 0;
  int64_t local_payload_in = 0;
  int64_t local_formula_out = 0;
  int64_t local_formula_in = 0;
  int64_t local_other_out = 0;
  int64_t local_other_in = 0;
  // The name of its emulated host; empty: it has none.
  std::string host = "";
  // Of that host, where it is called after this process.
  std::optional<LinkAudit> link_out = std::nullopt;
  std::optional<LinkAudit> link_in = std::nullopt;
  // Of a ring's links, where it is known (common/gradient_exchange.h).
  std::optional<double> awaiting_bytes_seconds = std::nullopt;
  std::optional<double> awaiting_room_seconds = std::nullopt;
  std::optional<int64_t> retransmissions = std::nullopt;
};

// Of each process of the arm, workers first.
std::vector<EndpointTraffic> TrafficOf(const JobSpec& spec, const ArmRecords& records);

// Payload that the server has sent which has sent most, by the mean of all servers; none
// where there are no servers, or they have not reported any.
std::optional<double> ServerImbalanceOf(const std::vector<EndpointTraffic>& endpoints);

// What of a process's payload in one direction is on its host's link.
struct LinkPayload {
  int64_t formula = 0;
  int64_t steps = 0;
  int64_t other = 0;  // The first distribution of parameters, and snapshots.
};
LinkPayload LinkPayloadOf(const EndpointTraffic& endpoint, bool out);

// Whether payload and formula are equal everywhere, every step of every worker has taken
// as many operations as its formula has, and every link has carried at least
// the payload. `endpoints` are those of TrafficOf.
Certificate CertifyTraffic(const JobSpec& spec, const ArmRecords& records,
                           const std::vector<EndpointTraffic>& endpoints);

}  // namespace psring

#endif  // PSRING_EXPERIMENTS_TRAFFIC_AUDIT_H_
