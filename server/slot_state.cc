#include "server/slot_state.h"

#include <numeric>

namespace psring {

ShardStart StartOfJob(int workers) {
  return {.version = 0, .made = std::vector<int64_t>(workers)};
}

int64_t ContributionsOf(const ShardStart& start) {
  return std::accumulate(start.made.begin(), start.made.end(), int64_t{0});
}

std::vector<int64_t> ClocksOf(const ShardStart& start,
                              const ConsistencyPromise& promise) {
  if (!promise.rounds) return start.made;
  return std::vector<int64_t>(start.made.size(), start.version);
}

}  // namespace psring
