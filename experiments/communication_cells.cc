#include "experiments/communication_cells.h"

#include <algorithm>
#include <cmath>
#include <limits>
#include <map>

#include "absl/strings/str_format.h"
#include "experiments/text.h"

namespace psring {
namespace {

constexpr double kNone = std::numeric_limits<double>::quiet_NaN();

}  // namespace

std::string PeerLateCell(const ArmRuns& arm) {
  if (arm.first().workers == 1) return "-";
  const auto value = [](const ArmResult& run) { return run.waiting.peer_late; };
  return RoughPercent(arm.Over(value).median);
}

std::string WaitedForCell(const ArmRuns& arm) {
  std::map<int, double> shares;
  for (const ArmResult& run : arm.runs) {
    for (const auto& [worker, share] : run.waiting.for_worker) {
      shares[worker] += share / static_cast<double>(arm.runs.size());
    }
  }
  const auto most =
      std::max_element(shares.begin(), shares.end(),
                       [](const auto& a, const auto& b) { return a.second < b.second; });
  if (most == shares.end()) return "-";
  return absl::StrFormat("worker %d, %s", most->first, RoughPercent(most->second));
}

std::string FirstLaunchCell(const ArmRuns& arm) {
  const auto value = [](const ArmResult& run) {
    return run.communication.buckets.empty() ? kNone : run.communication.first_launch;
  };
  const double share = arm.Over(value).median;
  return std::isnan(share) ? "-" : RoughPercent(share);
}

std::string OverlapRatioCell(const ArmRuns& arm) {
  const auto value = [](const ArmResult& run) {
    return run.communication.overlap_ratio.value_or(kNone);
  };
  const double ratio = arm.Over(value).median;
  return std::isnan(ratio) ? "-" : RoughPercent(ratio);
}

std::string ArrivalSkewCell(const ArmRuns& arm) {
  const auto of_each = [&](double ArrivalSkew::*part) {
    const auto value = [part](const ArmResult& run) {
      const std::optional<ArrivalSkew>& skew = run.communication.arrival_skew;
      return skew ? (*skew).*part : kNone;
    };
    return arm.Over(value);
  };
  const double mean = of_each(&ArrivalSkew::mean_ms).median;
  if (std::isnan(mean)) return "-";
  return absl::StrFormat("%.3f (clocks within %.3f)", mean,
                         of_each(&ArrivalSkew::error_ms).max);
}

std::string LastToBeReadyCell(const ArmRuns& arm) {
  const ArrivalSkew* clearest = nullptr;
  for (const ArmResult& run : arm.runs) {
    const std::optional<ArrivalSkew>& skew = run.communication.arrival_skew;
    if (!skew) continue;
    if (clearest == nullptr || skew->last_share > clearest->last_share) clearest = &*skew;
  }
  if (clearest == nullptr) return "-";
  return absl::StrFormat("worker %d, %s of buckets", clearest->last,
                         RoughPercent(clearest->last_share));
}

}  // namespace psring
