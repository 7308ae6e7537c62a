// Which algorithm makes an operation: one for all, or by size. Pure.
#ifndef PSRING_RING_ALGORITHM_BY_SIZE_H_
#define PSRING_RING_ALGORITHM_BY_SIZE_H_

#include <cstdint>
#include <vector>

#include "proto/experiment.pb.h"
#include "ring/algorithm.h"

namespace psring {

// A value. Everyone who must know what an operation of a ring arm does asks this: ranks,
// formulas of traffic, records, certificates.
class AlgorithmBySize {
 public:
  // One for operations of any size. Not AUTO.
  AlgorithmBySize(Algorithm algorithm);  // NOLINT(google-explicit-constructor)
  // That of checked settings with their defaults: those of AUTO have rows, ascending, of
  // which the last has no limit.
  explicit AlgorithmBySize(const RingMode& settings);

  // Of an operation on so many bytes of every rank.
  Algorithm For(int64_t bytes) const;
  // All that it gives, each once.
  std::vector<Algorithm> all() const;

 private:
  struct Row {
    int64_t up_to_bytes;
    Algorithm algorithm;
  };

  std::vector<Row> rows_;  // Ascending; the last takes everything that is left.
};

}  // namespace psring

#endif  // PSRING_RING_ALGORITHM_BY_SIZE_H_
