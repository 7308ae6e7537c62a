#include "server/slot_parameters.h"

#include <algorithm>
#include <utility>
#include <vector>

namespace psring {

void BufferGauge::Add(int64_t bytes) {
  const int64_t now = now_.fetch_add(bytes, std::memory_order_relaxed) + bytes;
  int64_t peak = peak_.load(std::memory_order_relaxed);
  while (peak < now &&
         !peak_.compare_exchange_weak(peak, now, std::memory_order_relaxed)) {
  }
}

class SlotParameters::Buffer {
 public:
  Buffer(std::shared_ptr<BufferGauge> gauge, int64_t count)
      : gauge_(std::move(gauge)), values_(count) {
    gauge_->Add(bytes());
  }
  ~Buffer() { gauge_->Remove(bytes()); }

  std::vector<float>& values() { return values_; }
  void AddReader() { readers_.fetch_add(1, std::memory_order_relaxed); }
  // Release, and acquire below: what a reader has read, it has read before a write.
  void RemoveReader() { readers_.fetch_sub(1, std::memory_order_release); }
  bool has_readers() const { return readers_.load(std::memory_order_acquire) > 0; }

 private:
  int64_t bytes() const { return static_cast<int64_t>(values_.size() * sizeof(float)); }

  const std::shared_ptr<BufferGauge> gauge_;
  std::vector<float> values_;
  std::atomic<int64_t> readers_{0};
};

SlotParameters::SlotParameters(std::shared_ptr<BufferGauge> gauge)
    : gauge_(std::move(gauge)), buffer_(std::make_shared<Buffer>(gauge_, 0)) {}

void SlotParameters::Assign(const FloatPieces& values) {
  buffer_ = std::make_shared<Buffer>(gauge_, values.count());
  values.CopyTo(buffer_->values());
}

std::span<const float> SlotParameters::values() const { return buffer_->values(); }

std::shared_ptr<const void> SlotParameters::Share() const {
  buffer_->AddReader();
  return std::shared_ptr<const void>(
      buffer_.get(), [buffer = buffer_](const void*) { buffer->RemoveReader(); });
}

std::span<float> SlotParameters::MakeWritable() {
  // A reader that comes is let in by this object's caller, one that goes only frees.
  if (buffer_->has_readers()) {
    auto copy = std::make_shared<Buffer>(gauge_, values().size());
    std::copy(values().begin(), values().end(), copy->values().begin());
    buffer_ = std::move(copy);
  }
  return buffer_->values();
}

}  // namespace psring
