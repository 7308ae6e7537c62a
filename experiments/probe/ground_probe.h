// Measures everything that the arms of an experiment depend on.
#ifndef PSRING_EXPERIMENTS_PROBE_GROUND_PROBE_H_
#define PSRING_EXPERIMENTS_PROBE_GROUND_PROBE_H_

#include <ostream>
#include <vector>

#include "absl/status/statusor.h"
#include "experiments/probe/probe_report.h"
#include "proto/coordinator.pb.h"

namespace psring {

// Each kind of link of these arms (link_probe.h), then how fast a rank adds and the
// servers of each arm apply (arithmetic_rates.h), and what follows for each arm. Takes
// about 1.5 s for a kind of link, and a fifth of a second for each rate. A line for each
// link goes to `progress`. The process has entered its private network if an arm has
// hosts. Errors are those of the measurements.
absl::StatusOr<ProbeReport> ProbeGround(const std::vector<JobSpec>& arms,
                                        std::ostream* progress);

}  // namespace psring

#endif  // PSRING_EXPERIMENTS_PROBE_GROUND_PROBE_H_
