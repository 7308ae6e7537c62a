// What a slot is, for checkpoints: where it starts from, and what it has become.
#ifndef PSRING_SERVER_SLOT_STATE_H_
#define PSRING_SERVER_SLOT_STATE_H_

#include <cstdint>
#include <span>
#include <vector>

#include "common/partition.h"
#include "server/consistency_policy.h"
#include "server/slot_parameters.h"

namespace psring {

// The same for all slots of a job.
struct ShardStart {
  int64_t version = 0;
  std::vector<int64_t> made;  // By rank: contributions to each slot.
};

// Of a job of so many workers that begins at its beginning.
ShardStart StartOfJob(int workers);

// All contributions to a slot.
int64_t ContributionsOf(const ShardStart& start);

// The workers' clocks, by rank. Where there are rounds a worker's step is a round's
// number, and none is open; else it is the worker's own.
std::vector<int64_t> ClocksOf(const ShardStart& start, const ConsistencyPromise& promise);

// Of one slot.
struct SlotState {
  Range range;
  SlotVersion parameters;
  std::vector<std::span<float>> optimizer;  // Arrays of one float for each parameter.
};

}  // namespace psring

#endif  // PSRING_SERVER_SLOT_STATE_H_
