#include "common/memory_gauge.h"

#include <utility>

namespace psring {

void MemoryGauge::Add(int64_t bytes) {
  const int64_t now = now_.fetch_add(bytes, std::memory_order_relaxed) + bytes;
  int64_t peak = peak_.load(std::memory_order_relaxed);
  while (peak < now &&
         !peak_.compare_exchange_weak(peak, now, std::memory_order_relaxed)) {
  }
}

MemoryClaim::MemoryClaim(std::shared_ptr<MemoryGauge> gauge, int64_t bytes)
    : gauge_(std::move(gauge)), bytes_(bytes) {
  if (gauge_ != nullptr) gauge_->Add(bytes_);
}

MemoryClaim::MemoryClaim(MemoryClaim&& other) noexcept
    : gauge_(std::move(other.gauge_)), bytes_(other.bytes_) {}

MemoryClaim& MemoryClaim::operator=(MemoryClaim&& other) noexcept {
  const MemoryClaim old(std::move(*this));
  gauge_ = std::move(other.gauge_);
  bytes_ = other.bytes_;
  return *this;
}

MemoryClaim::~MemoryClaim() {
  if (gauge_ != nullptr) gauge_->Remove(bytes_);
}

std::shared_ptr<MemoryGauge> MemoryGauges::Of(const std::string& purpose) {
  std::shared_ptr<MemoryGauge>& gauge = gauges_[purpose];
  if (gauge == nullptr) gauge = std::make_shared<MemoryGauge>();
  return gauge;
}

std::map<std::string, int64_t> MemoryGauges::Peaks() const {
  std::map<std::string, int64_t> peaks;
  for (const auto& [purpose, gauge] : gauges_) peaks[purpose] = gauge->peak();
  return peaks;
}

}  // namespace psring
