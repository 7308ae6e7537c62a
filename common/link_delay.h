// How long messages between the processes of a job are held back, to emulate links with a
// delay. Pure.
#ifndef PSRING_COMMON_LINK_DELAY_H_
#define PSRING_COMMON_LINK_DELAY_H_

#include <cstdint>

#include "absl/time/time.h"
#include "proto/coordinator.pb.h"

namespace psring {

// What either way between two processes takes longer: the delay of both hosts' links
// (proto/experiment.proto, Hosts), and nothing between processes of one host or where the
// job has no hosts.
absl::Duration DelayBetweenWorkers(const JobSpec& spec, int rank, int other);
absl::Duration DelayToServer(const JobSpec& spec, int worker, int server);

// The most bytes that any link of the job's hosts carries in such a time.
int64_t BytesWithin(const JobSpec& spec, absl::Duration delay);

}  // namespace psring

#endif  // PSRING_COMMON_LINK_DELAY_H_
