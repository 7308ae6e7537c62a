// When something is due that happens every so many steps, and after the last. Pure.
#ifndef PSRING_COMMON_DUE_H_
#define PSRING_COMMON_DUE_H_

#include <algorithm>
#include <cstdint>

namespace psring {

// The number of completed steps, above `completed`, at which it is due next in a run of
// `steps` > `completed` steps. `interval` 0: after the last step only.
inline int64_t NextDue(int64_t completed, int64_t steps, int64_t interval) {
  if (interval == 0) return steps;
  return std::min(steps, (completed / interval + 1) * interval);
}

}  // namespace psring

#endif  // PSRING_COMMON_DUE_H_
