// Optimizer state where its owner has it.
#ifndef PSRING_COMMON_STATE_SLICE_H_
#define PSRING_COMMON_STATE_SLICE_H_

#include <span>
#include <vector>

#include "common/partition.h"

namespace psring {

// Of the elements of a range of the flat buffer: each array has one float for each.
struct StateSlice {
  Range range;
  std::vector<std::span<float>> state;
};

}  // namespace psring

#endif  // PSRING_COMMON_STATE_SLICE_H_
