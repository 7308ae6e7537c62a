// The digest of one tensor of one replica.
#ifndef PSRING_EXPERIMENTS_TENSOR_DIGEST_H_
#define PSRING_EXPERIMENTS_TENSOR_DIGEST_H_

#include <cstdint>

namespace psring {

struct TensorDigest {
  int rank = 0;
  int64_t step = 0;
  int tensor = 0;  // In forward order.
  uint64_t digest = 0;
};

}  // namespace psring

#endif  // PSRING_EXPERIMENTS_TENSOR_DIGEST_H_
