// The parameters of one slot, which answers read where they lie while they are sent.
#ifndef PSRING_SERVER_SLOT_PARAMETERS_H_
#define PSRING_SERVER_SLOT_PARAMETERS_H_

#include <cstdint>
#include <memory>
#include <span>
#include <vector>

#include "common/float_pieces.h"
#include "common/memory_gauge.h"

namespace psring {

// What counts the buffers of slots, if anything.
struct SlotMemory {
  std::shared_ptr<MemoryGauge> current;  // Whose parameters are those of now.
  std::shared_ptr<MemoryGauge> older;    // Those that are still read, or have been.
};

// One version of a slot's parameters, for whoever reads them.
struct SlotVersion {
  int64_t version = 0;
  std::span<const float> values;
  // Keeps the values alive and unchanged, at the price of a copy when the next version is
  // made: to be dropped soon.
  std::shared_ptr<const void> owner;
};

// A buffer that is copied before a write only if somebody still reads it.
//
// An answer to a pull references the buffer instead of copying it, N answers the same
// one, and the network may read it for as long as a worker is slow to receive. The next
// version must not change what is being sent. Two fixed buffers in turn would always cost
// twice the memory and one more pass over it; a buffer per version costs the pass. But a
// worker contributes to the next round only after it has received the last version: when
// a synchronous round closes, all answers have normally been sent, and the update happens
// in place. Only while one has not (or an older version is kept for another reason), the
// version gets another buffer.
//
// Where that happens in every update, as it does in modes without rounds, buffers take
// turns: one that nobody reads any more is the next version's, and nothing is allocated.
// An update in place lets go of those that nobody reads. So memory is that of the
// parameters once, plus once for every version that has been in use at the same time, and
// the gauge counts it.
//
// Not thread-safe, but what Share returns may be dropped by any thread, at any time, even
// after this object has ended.
class SlotParameters {
 public:
  explicit SlotParameters(SlotMemory memory);  // Empty.

  // Replaces all values.
  void Assign(const FloatPieces& values);

  std::span<const float> values() const;

  // Keeps values() as they are now, where they are now.
  std::shared_ptr<const void> Share() const;

  // The values, to be changed; spans from before are not theirs any more.
  std::span<float> MakeWritable();

 private:
  class Buffer;

  const SlotMemory memory_;
  std::shared_ptr<Buffer> buffer_;
  // Of versions before, in use when the next one was made.
  std::vector<std::shared_ptr<Buffer>> older_;
};

}  // namespace psring

#endif  // PSRING_SERVER_SLOT_PARAMETERS_H_
