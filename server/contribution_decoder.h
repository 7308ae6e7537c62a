// Gradients off the wire, as the floats that a shard adds.
#ifndef PSRING_SERVER_CONTRIBUTION_DECODER_H_
#define PSRING_SERVER_CONTRIBUTION_DECODER_H_

#include <cstdint>
#include <memory>
#include <vector>

#include "absl/status/statusor.h"
#include "common/float_pieces.h"
#include "common/wire_type.h"
#include "server/contribution.h"

namespace psring {

// With fp32 a contribution refers to the payload's bytes. With another wire it is decoded
// into a buffer, which comes back here when the shard has let go of the contribution, and
// is used again by one of the same size: memory is that of the most contributions of each
// size that were held at once.
//
// Thread-safe; contributions may outlive it.
class ContributionDecoder {
 public:
  explicit ContributionDecoder(const WireType& wire);

  // Of `count` elements. `owner` keeps the bytes. kInvalidArgument: they are no such
  // gradient (common/gradient_codec.h), or with fp32 no whole floats; whether these are
  // as many as the slot has is for the shard to check.
  absl::StatusOr<Contribution> Decode(std::vector<Bytes> payload,
                                      std::shared_ptr<const void> owner,
                                      int64_t count) const;

 private:
  class Buffers;

  const WireType wire_;
  const std::shared_ptr<Buffers> buffers_;
};

}  // namespace psring

#endif  // PSRING_SERVER_CONTRIBUTION_DECODER_H_
