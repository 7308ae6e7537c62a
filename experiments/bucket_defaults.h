// How large buckets are where an experiment does not say.
#ifndef PSRING_EXPERIMENTS_BUCKET_DEFAULTS_H_
#define PSRING_EXPERIMENTS_BUCKET_DEFAULTS_H_

#include <cstdint>

namespace psring {

inline constexpr int64_t kDefaultCapBytes = 1 << 20;
inline constexpr int64_t kDefaultFirstCapBytes = 256 << 10;  // At most the cap.

}  // namespace psring

#endif  // PSRING_EXPERIMENTS_BUCKET_DEFAULTS_H_
