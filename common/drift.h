// How far gradients are changed by what they are on the wire.
#ifndef PSRING_COMMON_DRIFT_H_
#define PSRING_COMMON_DRIFT_H_

#include <algorithm>
#include <cstdint>

namespace psring {

// Over elements that are not 0: |sent - gradient| / |gradient|.
struct Drift {
  double max = 0;
  double sum = 0;
  int64_t count = 0;

  double mean() const { return count == 0 ? 0 : sum / static_cast<double>(count); }
  void Add(const Drift& other) {
    max = std::max(max, other.max);
    sum += other.sum;
    count += other.count;
  }
};

}  // namespace psring

#endif  // PSRING_COMMON_DRIFT_H_
