// A device's memory that a gauge counts.
#ifndef PSRING_COMMON_TRACKED_BUFFER_H_
#define PSRING_COMMON_TRACKED_BUFFER_H_

#include <memory>
#include <utility>

#include "common/device.h"
#include "common/memory_gauge.h"

namespace psring {

// The same buffer, counted for as long as a copy of what is returned lives.
inline DeviceBuffer Tracked(DeviceBuffer buffer,
                            const std::shared_ptr<MemoryGauge>& gauge) {
  const DeviceSpan span = buffer.span();
  auto claim = std::make_shared<MemoryClaim>(gauge, buffer.bytes());
  return DeviceBuffer(span, [buffer = std::move(buffer), claim = std::move(claim)] {});
}

}  // namespace psring

#endif  // PSRING_COMMON_TRACKED_BUFFER_H_
