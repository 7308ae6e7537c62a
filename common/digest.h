// A 64-bit digest of a replica's parameters that parts can compute apart: the sum over
// elements of mix64(bits, index), modulo 2^64.
#ifndef PSRING_COMMON_DIGEST_H_
#define PSRING_COMMON_DIGEST_H_

#include <cstdint>
#include <span>

namespace psring {

// `first_index` is where the values begin in the flat buffer. The digest of a whole is
// the sum of its parts' digests, in any order.
uint64_t Digest(std::span<const float> values, int64_t first_index = 0);

}  // namespace psring

#endif  // PSRING_COMMON_DIGEST_H_
