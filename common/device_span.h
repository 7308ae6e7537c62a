// Memory that a device works on, and the moment from which it may be read.
#ifndef PSRING_COMMON_DEVICE_SPAN_H_
#define PSRING_COMMON_DEVICE_SPAN_H_

#include <cstdint>
#include <span>

#include "common/partition.h"
#include "glog/logging.h"

namespace psring {

enum class DeviceKind { kCpu };

// Floats in a device's memory. Does not own them; copied freely.
struct DeviceSpan {
  float* data = nullptr;
  int64_t count = 0;
  DeviceKind kind = DeviceKind::kCpu;

  DeviceSpan Slice(Range range) const {
    DCHECK(range.begin >= 0 && range.end() <= count);
    return {.data = data + range.begin, .count = range.count, .kind = kind};
  }
  // The same floats for the processor; only for host memory.
  std::span<float> host() const {
    CHECK(kind == DeviceKind::kCpu);
    return {data, static_cast<size_t>(count)};
  }
};

// The point in a device's work from which a buffer's content is final. The CPU device
// works in the caller's thread, so its events have happened when they are made.
class ReadyEvent {
 public:
  static ReadyEvent Happened() { return ReadyEvent(); }
  // Blocks the calling thread until the event has happened.
  void Wait() const {}

 private:
  ReadyEvent() = default;
};

}  // namespace psring

#endif  // PSRING_COMMON_DEVICE_SPAN_H_
