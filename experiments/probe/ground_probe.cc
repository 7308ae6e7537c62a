#include "experiments/probe/ground_probe.h"

#include <optional>
#include <utility>

#include "common/status_macros.h"
#include "experiments/hosts/host_plan.h"
#include "experiments/probe/arithmetic_rates.h"
#include "experiments/probe/cost_model.h"
#include "experiments/probe/link_probe.h"
#include "experiments/probe/probed_link.h"
#include "experiments/probe/step_floor.h"

namespace psring {
namespace {

absl::StatusOr<ArmForecast> ForecastOf(const JobSpec& spec, const ProbeReport& report) {
  ArmForecast forecast{.name = spec.arm().name(),
                       .apply_rate = std::nullopt,
                       .floor = absl::NotFoundError("without hosts"),
                       .cost = absl::NotFoundError("nothing moves")};
  ArithmeticRates rates{.add = report.add_rate};
  if (spec.servers() > 0) {
    ASSIGN_OR_RETURN(rates.apply, MeasureApplyRate(spec));
    forecast.apply_rate = rates.apply;
  }
  if (OnHosts(spec)) forecast.floor = FloorOf(spec, report.links);
  forecast.cost = PredictExchange(spec, report.links, rates);
  return forecast;
}

}  // namespace

absl::StatusOr<ProbeReport> ProbeGround(const std::vector<JobSpec>& arms,
                                        std::ostream* progress) {
  ProbeReport report;
  ASSIGN_OR_RETURN(report.links, ProbeLinks(LinksToProbe(arms), progress));
  report.add_rate = MeasureAddRate();
  for (const JobSpec& arm : arms) {
    ASSIGN_OR_RETURN(ArmForecast forecast, ForecastOf(arm, report));
    report.arms.push_back(std::move(forecast));
  }
  return report;
}

}  // namespace psring
