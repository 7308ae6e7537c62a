#include "experiments/aligned_clocks.h"

#include <algorithm>
#include <cmath>

namespace psring {

void AlignedClocks::Add(int rank, const ClockRecord& compared) {
  compared_[rank].push_back(compared);
}

double AlignedClocks::OffsetAt(int rank, int64_t time_ns) const {
  const auto found = compared_.find(rank);
  if (found == compared_.end()) return 0;
  const ClockRecord& first = found->second.front();
  const ClockRecord& last = found->second.back();
  const auto offset = static_cast<double>(first.offset_ns());
  if (last.time_ns() <= first.time_ns()) return offset;
  const double share = static_cast<double>(time_ns - first.time_ns()) /
                       static_cast<double>(last.time_ns() - first.time_ns());
  return offset + std::clamp(share, 0.0, 1.0) *
                      static_cast<double>(last.offset_ns() - first.offset_ns());
}

int64_t AlignedClocks::Translate(int from, int64_t time_ns, int to) const {
  if (from == to) return time_ns;
  // Offsets differ by hours and drift by microseconds: `to`'s may be taken at where its
  // clock is about.
  const double ahead = OffsetAt(from, time_ns);
  const auto about = time_ns + std::llround(ahead - OffsetAt(to, 0));
  return time_ns + std::llround(ahead - OffsetAt(to, about));
}

int64_t AlignedClocks::error_ns() const {
  std::vector<int64_t> errors = {0, 0};
  for (const auto& [rank, compared] : compared_) {
    int64_t most = 0;
    for (const ClockRecord& record : compared) most = std::max(most, record.error_ns());
    errors.push_back(most);
  }
  std::sort(errors.rbegin(), errors.rend());
  return errors[0] + errors[1];
}

}  // namespace psring
