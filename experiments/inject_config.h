// What `inject` may ask for, where a worker's parameters are concerned. No I/O.
#ifndef PSRING_EXPERIMENTS_INJECT_CONFIG_H_
#define PSRING_EXPERIMENTS_INJECT_CONFIG_H_

#include <cstdint>
#include <string>

#include "absl/status/status.h"
#include "experiments/config_text.h"
#include "proto/coordinator.pb.h"
#include "proto/experiment.pb.h"

namespace psring {

// OK, or the first thing that is wrong with inject.flip_bit as written, as
// CheckExperiment (experiments/config_check.h). All arms but local ones have `ranks`
// workers.
absl::Status CheckFlips(const Experiment& experiment, int64_t ranks,
                        const FieldOrigins& origins);

// The same for what is known of a job alone, whose model and data are: its parameters
// and steps. A local arm, which may make fewer steps than the others, just has no flip
// after its last one. The error names the field, not the line.
absl::Status CheckFlips(const JobSpec& spec);

// "bit 31 of parameter 5 flips after step 7".
std::string DescribeFlip(const FlipBit& flip);

}  // namespace psring

#endif  // PSRING_EXPERIMENTS_INJECT_CONFIG_H_
