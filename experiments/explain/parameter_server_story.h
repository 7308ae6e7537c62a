// One synchronous step through a parameter server, as a story.
#ifndef PSRING_EXPERIMENTS_EXPLAIN_PARAMETER_SERVER_STORY_H_
#define PSRING_EXPERIMENTS_EXPLAIN_PARAMETER_SERVER_STORY_H_

#include <cstdint>

#include "absl/status/statusor.h"
#include "experiments/explain/story.h"

namespace psring {

// Runs a server and the channels of `workers` workers in this process, over gRPC on the
// loopback interface, and tells what went over them. Requires workers from 2 to
// kMostStoryRanks and 1 <= count <= 10'000.
//   kDataLoss: the parameters or the traffic are not what they must be.
//   What the server or a channel reports.
absl::StatusOr<Story> TellParameterServer(int workers, int64_t count);

}  // namespace psring

#endif  // PSRING_EXPERIMENTS_EXPLAIN_PARAMETER_SERVER_STORY_H_
