#include "experiments/bench/apply/result.h"

#include <algorithm>

#include "experiments/bench/result.h"

namespace psring {

ApplyRow MakeApplyRow(const ApplyCase& row, const std::vector<ApplyRound>& rounds,
                      int64_t wrong) {
  std::vector<int64_t> updates, triads;                // Of all rounds.
  std::vector<int64_t> update_medians, triad_medians;  // By round.
  for (const ApplyRound& round : rounds) {
    updates.insert(updates.end(), round.update_ns.begin(), round.update_ns.end());
    triads.insert(triads.end(), round.triad_ns.begin(), round.triad_ns.end());
    update_medians.push_back(Median(round.update_ns));
    triad_medians.push_back(Median(round.triad_ns));
  }
  const auto moved = static_cast<double>(MovedBytes(row));
  const auto triad_moved = static_cast<double>(TriadCount(row) * kTriadBytesPerElement);
  const auto median_ns = static_cast<double>(Median(updates));
  return {
      .row = row,
      .min_us =
          static_cast<double>(*std::min_element(updates.begin(), updates.end())) / 1e3,
      .median_us = median_ns / 1e3,
      .p99_us = static_cast<double>(Percentile(updates, 99)) / 1e3,
      .speed = moved / median_ns,
      .triad_speed = triad_moved / static_cast<double>(Median(triads)),
      .ratio = MedianRatio(triad_medians, update_medians) * moved / triad_moved,
      .wrong = wrong};
}

}  // namespace psring
