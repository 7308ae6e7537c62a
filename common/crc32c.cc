#include "common/crc32c.h"

#include <algorithm>

#include "isa-l/crc.h"

namespace psring {

// The library takes and returns the register itself; the checksum is its complement.
uint32_t Crc32c(std::span<const std::byte> bytes, uint32_t before) {
  constexpr size_t kMost = size_t{1} << 30;  // Its lengths are of type int.
  uint32_t state = ~before;
  while (!bytes.empty()) {
    const size_t now = std::min(bytes.size(), kMost);
    // It does not write, although its parameter is not const.
    auto* const data =
        const_cast<unsigned char*>(reinterpret_cast<const unsigned char*>(bytes.data()));
    state = crc32_iscsi(data, static_cast<int>(now), state);
    bytes = bytes.subspan(now);
  }
  return ~state;
}

}  // namespace psring
