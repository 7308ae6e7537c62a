// One worker's gradient of one slot.
#ifndef PSRING_SERVER_CONTRIBUTION_H_
#define PSRING_SERVER_CONTRIBUTION_H_

#include <cstdint>
#include <memory>

#include "common/float_pieces.h"

namespace psring {

// A gradient and whatever keeps its floats alive and unchanged.
struct Contribution {
  FloatPieces gradient;
  std::shared_ptr<const void> owner;
  // What it was on its way; default: as large as its floats.
  int64_t payload_bytes = 0;
};

}  // namespace psring

#endif  // PSRING_SERVER_CONTRIBUTION_H_
