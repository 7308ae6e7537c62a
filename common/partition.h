// The one function that cuts: buckets into ring chunks and into servers' slots, global
// batches into workers' parts.
#ifndef PSRING_COMMON_PARTITION_H_
#define PSRING_COMMON_PARTITION_H_

#include <cstdint>

namespace psring {

// A run of consecutive elements: [begin, begin + count).
struct Range {
  int64_t begin = 0;
  int64_t count = 0;

  int64_t end() const { return begin + count; }
  friend bool operator==(const Range&, const Range&) = default;
};

// Part `part` of `parts` of [0, count): contiguous, in order, covering everything once,
// sizes differing by at most one, the larger parts first. Parts are empty where
// count < parts. Requires count >= 0, 0 <= part < parts. Exact up to 2^62.
constexpr Range PartitionRange(int64_t count, int64_t parts, int64_t part) {
  const int64_t size = count / parts;
  const int64_t larger = count % parts;  // So many parts have one element more.
  return {.begin = part * size + (part < larger ? part : larger),
          .count = size + (part < larger ? 1 : 0)};
}

}  // namespace psring

#endif  // PSRING_COMMON_PARTITION_H_
