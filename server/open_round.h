// The contributions that the next update of a slot is made of.
#ifndef PSRING_SERVER_OPEN_ROUND_H_
#define PSRING_SERVER_OPEN_ROUND_H_

#include <optional>
#include <span>
#include <vector>

#include "common/float_pieces.h"
#include "common/memory_gauge.h"
#include "server/consistency_policy.h"
#include "server/contribution.h"
#include "server/slot_parameters.h"

namespace psring {

struct HeldPush {
  PushInfo push;
  Contribution contribution;
  MemoryClaim claim;  // Of the contribution.
  SlotVersion read;   // That it was computed from; kept for delay compensation only.
};

// At most one for each rank. A plain value, which allocates nothing after construction;
// not thread-safe.
class OpenRound {
 public:
  explicit OpenRound(int workers) : held_(workers), terms_(workers) {}

  // The rank has none in it.
  void Hold(HeldPush held);
  int count() const { return count_; }

  // By rank; those that there are none of are empty.
  std::span<const FloatPieces> gradients() const { return terms_; }
  std::span<const std::optional<HeldPush>> held() const { return held_; }
  // Of a round of one: that one.
  const HeldPush& only() const;

  // Lets go of the gradients.
  void Clear();

 private:
  int count_ = 0;
  std::vector<std::optional<HeldPush>> held_;  // Their gradients are in terms_.
  std::vector<FloatPieces> terms_;
};

}  // namespace psring

#endif  // PSRING_SERVER_OPEN_ROUND_H_
