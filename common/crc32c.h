// The checksum of checkpoints.
#ifndef PSRING_COMMON_CRC32C_H_
#define PSRING_COMMON_CRC32C_H_

#include <cstddef>
#include <cstdint>
#include <span>

namespace psring {

// CRC-32C (Castagnoli; RFC 3720, appendix B.4), by the processor's instruction where it
// has one. Of the bytes of which `before` is the checksum, followed by these: the
// checksum of several pieces goes from one to the next.
uint32_t Crc32c(std::span<const std::byte> bytes, uint32_t before = 0);

}  // namespace psring

#endif  // PSRING_COMMON_CRC32C_H_
