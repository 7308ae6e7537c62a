// A 64-bit fingerprint by which processes recognise that they belong together.
#ifndef PSRING_COMMON_FINGERPRINT_H_
#define PSRING_COMMON_FINGERPRINT_H_

#include <cstdint>

#include "absl/strings/string_view.h"

namespace psring {

// Equal bytes have equal fingerprints on every machine (FNV-1a). Not cryptographic: it
// finds mistakes, not attackers.
uint64_t FingerprintOf(absl::string_view bytes);

}  // namespace psring

#endif  // PSRING_COMMON_FINGERPRINT_H_
