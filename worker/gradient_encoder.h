// A worker's gradients, slot by slot, as they go to the servers.
#ifndef PSRING_WORKER_GRADIENT_ENCODER_H_
#define PSRING_WORKER_GRADIENT_ENCODER_H_

#include <cstddef>
#include <cstdint>
#include <memory>
#include <optional>
#include <span>
#include <vector>

#include "absl/status/statusor.h"
#include "common/drift.h"
#include "common/float_pieces.h"
#include "common/memory_gauge.h"
#include "common/slot_plan.h"
#include "common/wire_type.h"

namespace psring {

// With fp32 the bytes are the gradient's own. With another wire every slot has a buffer,
// and with top_k all elements one for what has been left out: so in a step nothing is
// allocated.
//
// Slots of one server are encoded by one thread at a time, those of different servers by
// any. The drift is taken when all that has been encoded is known to be.
class GradientEncoder {
 public:
  // `gauge`, if any, counts the buffers.
  GradientEncoder(const WireType& wire, const SlotPlan& plan,
                  const std::shared_ptr<MemoryGauge>& gauge = nullptr);

  const WireType& wire() const { return wire_; }

  // How many bytes Encode makes of the slot.
  int64_t EncodedBytes(const Slot& slot) const {
    return wire_.EncodedBytes(slot.range.count);
  }

  // The bytes are valid until the slot is encoded again, with fp32 as long as `gradient`
  // is. NotANumberError: an element cannot be sent.
  absl::StatusOr<Bytes> Encode(const Slot& slot, std::span<const float> gradient);

  // Of all slots as they were encoded last; none with fp32.
  std::optional<Drift> drift() const;

 private:
  const WireType wire_;
  std::vector<std::vector<std::byte>> encoded_;  // By slot; empty with fp32.
  std::vector<Drift> drift_;                     // By slot.
  std::vector<std::vector<float>> left_out_;     // By slot; empty but for top_k.
  std::vector<std::vector<uint32_t>> scratch_;   // By server; the same.
  MemoryClaim claim_;                            // Of all these but the drift.
};

}  // namespace psring

#endif  // PSRING_WORKER_GRADIENT_ENCODER_H_
