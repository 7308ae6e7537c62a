// What operations move and add: floats, or numbers of 16 bits.
#ifndef PSRING_RING_ELEMENTS_H_
#define PSRING_RING_ELEMENTS_H_

#include <cstddef>
#include <cstdint>
#include <span>

#include "common/device_span.h"
#include "common/sixteen_bits.h"
#include "ring/operation_header.h"

namespace psring {

// Known types alone.
constexpr int64_t BytesOf(ElementType type) {
  return type == ElementType::kFloat32 ? sizeof(float) : sizeof(uint16_t);
}

// Elements in host memory, aligned for their type. Does not own them; copied freely.
struct Elements {
  std::byte* data = nullptr;
  int64_t count = 0;
  ElementType type = ElementType::kFloat32;

  // Implicit, because floats are what most operations are about.
  Elements(const DeviceSpan& floats);  // NOLINT(google-explicit-constructor)
  Elements(SixteenBits numbers, std::span<uint16_t> values);

  int64_t bytes() const { return count * BytesOf(type); }
  std::span<std::byte> all_bytes() const { return {data, static_cast<size_t>(bytes())}; }
};

// sum[i] = sum[i] + addend[i], with 16 bits rounded (common/sixteen_bits.h), for as many
// elements as both have bytes for. Aligned for the type; they do not overlap.
void AddElements(ElementType type, std::span<std::byte> sum,
                 std::span<const std::byte> addend);

}  // namespace psring

#endif  // PSRING_RING_ELEMENTS_H_
