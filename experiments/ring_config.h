// The settings of ring arms and of the ring's order: what they must satisfy, defaults,
// and a short name.
#ifndef PSRING_EXPERIMENTS_RING_CONFIG_H_
#define PSRING_EXPERIMENTS_RING_CONFIG_H_

#include <cstdint>
#include <string>

#include "absl/status/status.h"
#include "experiments/config_text.h"
#include "proto/experiment.pb.h"

namespace psring {

// OK, or the first thing that is wrong with the settings as written at `path`
// ("arms[1].ring"), before defaults; `origins` tells where that stands.
absl::Status CheckRing(const RingMode& ring, const std::string& path,
                       const FieldOrigins& origins);

// OK, or what keeps the arm from running on several hosts. InvalidArgument; names the
// field, not the line.
absl::Status CheckForSeveralHosts(const Arm& arm);

// The same for the experiment's ring_order, in an arm of `workers` > 0 workers.
absl::Status CheckRingOrder(const Experiment& experiment, const std::string& arm,
                            int64_t workers, const FieldOrigins& origins);

// The defaults that proto/experiment.proto states, in settings that have been checked.
// AUTO becomes the rows that are for this transport and so many workers.
void FillRingDefaults(int64_t workers, RingMode* ring);

// "ring all-reduce", "tree all-reduce over gRPC, 2 connections, spinning". Of checked
// settings; defaults are left out.
std::string DescribeRing(const RingMode& ring);

// "ring", "halving_doubling".
std::string AlgorithmName(RingMode::Algorithm algorithm);

}  // namespace psring

#endif  // PSRING_EXPERIMENTS_RING_CONFIG_H_
