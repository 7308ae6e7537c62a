#include "experiments/arm_runs.h"

#include <algorithm>
#include <cmath>
#include <limits>

namespace psring {
namespace {

constexpr double kInfinity = std::numeric_limits<double>::infinity();
constexpr double kNone = std::numeric_limits<double>::quiet_NaN();

}  // namespace

Spread ArmRuns::SpreadOf(std::vector<double> values) {
  std::erase_if(values, [](double value) { return std::isnan(value); });
  if (values.empty()) return {.median = kNone, .min = kNone, .max = kNone};
  std::sort(values.begin(), values.end());
  const double above = values[values.size() / 2];
  const double below = values[(values.size() - 1) / 2];
  return {.median = (above + below) / 2, .min = values.front(), .max = values.back()};
}

Spread ArmRuns::SamplesPerSecond() const {
  return Over([](const ArmResult& run) { return run.samples_per_second; });
}

Spread ArmRuns::FinalLoss() const {
  return Over([](const ArmResult& run) {
    if (!run.learns) return kNone;
    return std::isfinite(run.final_loss) ? run.final_loss : kInfinity;
  });
}

Spread ArmRuns::Accuracy() const {
  return Over([](const ArmResult& run) {
    return run.evaluations.empty() ? kNone : run.evaluations.back().accuracy;
  });
}

Spread ArmRuns::TimeToTargetSeconds() const {
  return Over([](const ArmResult& run) {
    return run.time_to_target_seconds.value_or(kInfinity);
  });
}

std::map<Convergence, int> ArmRuns::Verdicts() const {
  std::map<Convergence, int> verdicts;
  for (const ArmResult& run : runs) ++verdicts[run.convergence];
  return verdicts;
}

int ArmRuns::VoidRuns() const {
  return static_cast<int>(std::count_if(
      runs.begin(), runs.end(), [](const ArmResult& run) { return run.is_void(); }));
}

const Validity* ArmRuns::Void() const {
  const auto run = std::find_if(runs.begin(), runs.end(),
                                [](const ArmResult& other) { return other.is_void(); });
  return run == runs.end() ? nullptr : &*run->validity;
}

Staleness ArmRuns::AllStaleness() const {
  Staleness all;
  for (const ArmResult& run : runs) Add(run.contributions.staleness, &all);
  return all;
}

std::vector<ArmRuns> GroupByArm(const std::vector<ArmResult>& runs) {
  std::vector<ArmRuns> arms;
  for (const ArmResult& run : runs) {
    auto arm = std::find_if(arms.begin(), arms.end(), [&](const ArmRuns& other) {
      return other.first().name == run.name;
    });
    if (arm == arms.end()) arm = arms.emplace(arms.end());
    arm->runs.push_back(run);
  }
  return arms;
}

}  // namespace psring
