// The least time that the exchange of one step can take on measured links. Pure.
#ifndef PSRING_EXPERIMENTS_PROBE_STEP_FLOOR_H_
#define PSRING_EXPERIMENTS_PROBE_STEP_FLOOR_H_

#include <cstdint>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "common/job_plan.h"
#include "experiments/probe/probed_link.h"
#include "proto/coordinator.pb.h"

namespace psring {

// One direction of one link, and the payload that one step moves over it, by formula.
struct LinkBytes {
  std::string host;  // "worker 1", "rack 0"; without hosts that of a process.
  bool out = false;
  LinkKind kind;
  int64_t bytes = 0;
};

// Of all links of the job, which moves gradients over links, each host's `out` before its
// `in`; out of rack 0 and into it come last.
std::vector<LinkBytes> StepBytesOfLinks(const JobSpec& spec, const JobPlan& plan);

// That of the link's kind, one of `probed`. NotFound: it was not probed;
// FailedPrecondition: its probe is void, and why.
absl::StatusOr<const ProbedLink*> MeasurementOf(const LinkBytes& link,
                                                const std::vector<ProbedLink>& probed);
// Of `bytes` in one direction, at the measured rate.
double SecondsOf(const ProbedLink& probed, bool out, int64_t bytes);

struct StepFloor {
  double seconds = 0;
  std::string host = {};  // Whose link needs so long,
  bool out = false;       // in this direction.
};

// Each link's payload of a step by formula, at the rate measured of its kind: the longest
// of these times. An exchange takes longer by what its messages need beside payload, by
// latency, and by the time in which that link has nothing to carry. NotFound: nothing
// moves; or the errors of MeasurementOf. Without hosts the times are those of one pair of
// threads, and no floor.
absl::StatusOr<StepFloor> FloorOf(const JobSpec& spec,
                                  const std::vector<ProbedLink>& probed);

}  // namespace psring

#endif  // PSRING_EXPERIMENTS_PROBE_STEP_FLOOR_H_
