// An all-reduce as a story.
#ifndef PSRING_EXPERIMENTS_EXPLAIN_COLLECTIVE_STORY_H_
#define PSRING_EXPERIMENTS_EXPLAIN_COLLECTIVE_STORY_H_

#include <cstdint>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "experiments/explain/story.h"

namespace psring {

// The algorithms by name.
std::vector<std::string> AllReduceSubjects();

// Runs an all-reduce of `ranks` threads over TCP on the loopback interface, records what
// each sends, and tells it. Requires one of AllReduceSubjects, ranks from 2 to
// kMostStoryRanks and 1 <= count <= 10'000.
//   kDataLoss: what was sent, counted or summed is not what it must be.
//   What connecting or the operation reports.
absl::StatusOr<Story> TellAllReduce(absl::string_view subject, int ranks, int64_t count);

}  // namespace psring

#endif  // PSRING_EXPERIMENTS_EXPLAIN_COLLECTIVE_STORY_H_
