#include "common/clock_offset.h"

#include <algorithm>

#include "glog/logging.h"

namespace psring {

ClockOffset EstimateOffset(std::span<const ClockPing> pings) {
  CHECK(!pings.empty());
  const ClockPing& best =
      *std::min_element(pings.begin(), pings.end(), [](const auto& a, const auto& b) {
        return a.answered - a.asked < b.answered - b.asked;
      });
  const absl::Duration half = (best.answered - best.asked) / 2;
  const absl::Duration middle = best.asked + half;
  return {.offset = best.other - middle, .error = half, .time = middle};
}

}  // namespace psring
