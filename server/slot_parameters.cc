#include "server/slot_parameters.h"

#include <algorithm>
#include <utility>

namespace psring {

class SlotParameters::Buffer {
 public:
  explicit Buffer(std::vector<float> values) : values_(std::move(values)) {}

  // From now on this gauge counts it, if it is one, and no other.
  void CountIn(const std::shared_ptr<MemoryGauge>& gauge) {
    claim_ = MemoryClaim(gauge, static_cast<int64_t>(values_.size() * sizeof(float)));
  }
  std::vector<float>& values() { return values_; }

 private:
  std::vector<float> values_;
  MemoryClaim claim_;
};

namespace {

// Whether the buffer is this pointer's alone. Readers share it, and only this object's
// caller lets a new one in.
template <typename Buffer>
bool IsRead(const std::shared_ptr<Buffer>& buffer) {
  if (buffer.use_count() > 1) return true;
  // The count says that the last reader has gone, but orders nothing. One more owner who
  // goes as well does: what was read before the last one went is read before our write.
  std::shared_ptr<Buffer>(buffer).reset();
  return false;
}

}  // namespace

SlotParameters::SlotParameters(SlotMemory memory)
    : memory_(std::move(memory)),
      buffer_(std::make_shared<Buffer>(std::vector<float>())) {}

void SlotParameters::Assign(const FloatPieces& values) {
  std::vector<float> copy(values.count());
  values.CopyTo(copy);
  buffer_ = std::make_shared<Buffer>(std::move(copy));
  buffer_->CountIn(memory_.current);
}

std::span<const float> SlotParameters::values() const { return buffer_->values(); }

std::shared_ptr<const void> SlotParameters::Share() const { return buffer_; }

std::span<float> SlotParameters::MakeWritable() {
  const auto idle = std::partition(older_.begin(), older_.end(),
                                   [](const auto& older) { return IsRead(older); });
  if (!IsRead(buffer_)) {
    older_.erase(idle, older_.end());
    return buffer_->values();
  }
  std::shared_ptr<Buffer> next;
  if (idle != older_.end()) {
    next = std::move(older_.back());
    older_.pop_back();
    next->CountIn(nullptr);  // Before another one is counted as older: the peak is exact.
    std::copy(values().begin(), values().end(), next->values().begin());
  } else {
    next = std::make_shared<Buffer>(std::vector<float>(values().begin(), values().end()));
  }
  buffer_->CountIn(memory_.older);
  next->CountIn(memory_.current);
  older_.push_back(std::exchange(buffer_, std::move(next)));
  return buffer_->values();
}

}  // namespace psring
