#include "experiments/report/contest.h"

#include <algorithm>
#include <cmath>
#include <map>
#include <tuple>

#include "absl/strings/str_cat.h"
#include "experiments/report/words.h"

namespace psring {
namespace {

// Nobody should believe a smaller difference of a single run.
constexpr double kClear = 1.05;

Spread AppliedSamplesPerSecond(const ArmRuns& arm) {
  return arm.Over([](const ArmResult& run) { return run.applied_samples_per_second; });
}

// Of which more is better.
Spread Speed(Measure measure, const ArmRuns& arm) {
  if (measure == Measure::kThroughput) return AppliedSamplesPerSecond(arm);
  const Spread seconds = arm.TimeToTargetSeconds();
  return {.median = 1 / seconds.median, .min = 1 / seconds.max, .max = 1 / seconds.min};
}

bool Counts(const ArmRuns& arm) {
  return arm.Void() == nullptr && !arm.Verdicts().contains(Convergence::kDiverged);
}

bool HasBoth(const std::vector<const ArmRuns*>& arms) {
  const auto has = [&](Architecture wanted) {
    return std::any_of(arms.begin(), arms.end(), [&](const ArmRuns* arm) {
      return Counts(*arm) && ArchitectureOf(arm->first()) == wanted;
    });
  };
  return has(Architecture::kServers) && has(Architecture::kRing);
}

}  // namespace

Architecture ArchitectureOf(const ArmResult& arm) {
  if (arm.servers > 0) return Architecture::kServers;
  // Its other algorithms have other names.
  return arm.mode == "local" ? Architecture::kLocal : Architecture::kRing;
}

const ArmRuns* Contest::best_other() const {
  const auto other = std::find_if(arms.begin(), arms.end(), [&](const ArmRuns* arm) {
    return ArchitectureOf(arm->first()) != ArchitectureOf(arms.front()->first());
  });
  return other == arms.end() ? nullptr : *other;
}

Contest ContestOf(const std::vector<ArmRuns>& arms, double target) {
  std::map<int, std::vector<const ArmRuns*>> by_workers;
  for (const ArmRuns& arm : arms) by_workers[arm.first().workers].push_back(&arm);
  Contest contest;
  if (arms.empty()) return contest;
  const auto rank = [](const auto& group) {
    const int counting =
        static_cast<int>(std::count_if(group.second.begin(), group.second.end(),
                                       [](const ArmRuns* arm) { return Counts(*arm); }));
    const bool both = HasBoth(group.second);
    return std::tuple(both, both ? group.first : counting, group.first);
  };
  const auto chosen =
      std::max_element(by_workers.begin(), by_workers.end(),
                       [&](const auto& a, const auto& b) { return rank(a) < rank(b); });
  contest.workers = chosen->first;
  for (const ArmRuns* const arm : chosen->second) {
    (Counts(*arm) ? contest.arms : contest.left_out).push_back(arm);
  }
  const bool reached =
      std::any_of(contest.arms.begin(), contest.arms.end(), [](const ArmRuns* arm) {
        return std::isfinite(arm->TimeToTargetSeconds().median);
      });
  if (target > 0 && reached) contest.measure = Measure::kTimeToTarget;
  std::stable_sort(
      contest.arms.begin(), contest.arms.end(), [&](const ArmRuns* a, const ArmRuns* b) {
        return Speed(contest.measure, *a).median > Speed(contest.measure, *b).median;
      });
  return contest;
}

double Lead(Measure measure, const ArmRuns& arm, const ArmRuns& other) {
  return Speed(measure, arm).median / Speed(measure, other).median;
}

bool TooClose(Measure measure, const ArmRuns& arm, const ArmRuns& other) {
  const double lead = Lead(measure, arm, other);
  if (lead < kClear && lead > 1 / kClear) return true;
  const Spread a = Speed(measure, arm);
  const Spread b = Speed(measure, other);
  return a.min <= b.max && b.min <= a.max;
}

std::string ValueText(Measure measure, const ArmRuns& arm) {
  if (measure == Measure::kThroughput) {
    return absl::StrCat(RoughNumber(AppliedSamplesPerSecond(arm).median), " samples/s");
  }
  const double seconds = arm.TimeToTargetSeconds().median;
  return std::isfinite(seconds) ? RoughSeconds(seconds) : "never";
}

}  // namespace psring
