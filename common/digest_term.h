// What one element adds to a digest, on processors and GPUs.
#ifndef PSRING_COMMON_DIGEST_TERM_H_
#define PSRING_COMMON_DIGEST_TERM_H_

#include <cstdint>

#include "common/float_bits.h"
#include "common/host_device.h"

namespace psring {

// mix64(bits, index) of common/digest.h; `index` is the element's in the flat buffer. The
// finalizer of SplitMix64 (Steele, Lea, Flood 2014) over the element's bits beside its
// index, so that both a changed value and two exchanged ones show.
PSRING_HOST_DEVICE uint64_t DigestTerm(float value, uint64_t index) {
  uint64_t x = BitCast<uint32_t>(value) + (index + 1) * 0x9e3779b97f4a7c15u;
  x = (x ^ (x >> 30)) * 0xbf58476d1ce4e5b9u;
  x = (x ^ (x >> 27)) * 0x94d049bb133111ebu;
  return x ^ (x >> 31);
}

}  // namespace psring

#endif  // PSRING_COMMON_DIGEST_TERM_H_
