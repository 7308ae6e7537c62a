// How fast this machine adds and applies gradients.
#ifndef PSRING_EXPERIMENTS_PROBE_ARITHMETIC_RATES_H_
#define PSRING_EXPERIMENTS_PROBE_ARITHMETIC_RATES_H_

#include "absl/status/statusor.h"
#include "absl/time/time.h"
#include "proto/coordinator.pb.h"

namespace psring {

// Both in bytes of gradients per second of processor time of one thread, so that others
// who want the processor do not count; measured for `least`, and then to the end of what
// is being done.

// As a ring's rank adds what it has received to what it has.
double MeasureAddRate(absl::Duration least = absl::Milliseconds(200));

// As server 0 of this arm takes contributions of all its workers, sums them in its mode's
// way and applies the optimizer: the server's own code, without the network. The job has
// servers, and slots for the first.
absl::StatusOr<double> MeasureApplyRate(const JobSpec& spec,
                                        absl::Duration least = absl::Milliseconds(200));

}  // namespace psring

#endif  // PSRING_EXPERIMENTS_PROBE_ARITHMETIC_RATES_H_
