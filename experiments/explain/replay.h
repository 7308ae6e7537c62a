// From what the ranks of a collective have really sent to its story. Pure.
#ifndef PSRING_EXPERIMENTS_EXPLAIN_REPLAY_H_
#define PSRING_EXPERIMENTS_EXPLAIN_REPLAY_H_

#include <map>
#include <utility>
#include <vector>

#include "absl/status/statusor.h"
#include "experiments/explain/story.h"
#include "ring/move.h"

namespace psring {

// One operation as it was seen from outside.
struct ObservedOperation {
  std::vector<MoveList> moves;             // By rank: what each is to do.
  std::vector<std::vector<float>> inputs;  // By rank.
  // The floats that went from one rank to another, in order, over the whole operation.
  std::map<std::pair<int, int>, std::vector<float>> sent;
  std::vector<std::vector<float>> results;  // By rank.
};

struct ReplayTitles {
  const char* adding;     // Of the steps up to the last one in which something is added.
  const char* spreading;  // Of those after it.
};

// Cuts the operation into steps: in each, everything moves that no longer depends on
// another move. Follows the ranks' values through them, and compares with what was seen.
//   kDataLoss: what was sent, or a result, is not what the moves make of the inputs.
absl::StatusOr<std::vector<StoryStep>> Replay(const ObservedOperation& operation,
                                              const ReplayTitles& titles);

}  // namespace psring

#endif  // PSRING_EXPERIMENTS_EXPLAIN_REPLAY_H_
