#include "experiments/contributions.h"

#include <algorithm>

namespace psring {
namespace {

// Mean and maximum follow from the histogram.
void Complete(Staleness* staleness) {
  int64_t count = 0;
  double sum = 0;
  for (size_t s = 0; s < staleness->histogram.size(); ++s) {
    const int64_t here = staleness->histogram[s];
    count += here;
    sum += static_cast<double>(s) * static_cast<double>(here);
    if (here > 0) staleness->max = static_cast<int64_t>(s);
  }
  staleness->mean = count == 0 ? 0 : sum / static_cast<double>(count);
}

Staleness StalenessOf(const std::map<int64_t, StalenessTotals>& totals) {
  Staleness staleness;
  for (const auto& [s, bin] : totals) {
    staleness.histogram.resize(s + 1);
    staleness.histogram[s] = bin.count;
  }
  Complete(&staleness);
  return staleness;
}

}  // namespace

void Add(const Staleness& more, Staleness* sum) {
  if (sum->histogram.size() < more.histogram.size()) {
    sum->histogram.resize(more.histogram.size());
  }
  for (size_t s = 0; s < more.histogram.size(); ++s) {
    sum->histogram[s] += more.histogram[s];
  }
  Complete(sum);
}

ContributionSummary SummarizeContributions(const ArmRecords& records, int workers,
                                           int64_t slots) {
  ContributionSummary summary;
  if (slots == 0) return summary;
  std::vector<ContributionTotals> sums(workers);  // Over slots, by rank.
  for (const auto& [slot, totals] : records.slots) {
    for (const auto& [rank, mine] : totals.workers) {
      ContributionTotals& sum = sums.at(rank);
      sum.made += mine.made;
      sum.late += mine.late;
      sum.stale += mine.stale;
      summary.clock_lag_max = std::max(summary.clock_lag_max, mine.clock_lag_max);
    }
  }
  const auto whole = [slots](int64_t contributions) {
    return static_cast<double>(contributions) / static_cast<double>(slots);
  };
  for (const ContributionTotals& sum : sums) {
    summary.workers.push_back({.made = whole(sum.made),
                               .applied = whole(sum.made - sum.late - sum.stale),
                               .late = whole(sum.late),
                               .stale = whole(sum.stale)});
    summary.late += whole(sum.late);
    summary.stale += whole(sum.stale);
  }
  for (const auto& [rank, totals] : records.staleness) {
    const Staleness mine = StalenessOf(totals);
    summary.workers.at(rank).staleness_mean = mine.mean;
    summary.workers.at(rank).staleness_max = mine.max;
    Add(mine, &summary.staleness);
  }
  return summary;
}

}  // namespace psring
