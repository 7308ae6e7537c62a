// What a probe has found, for people and for scripts. Pure.
#ifndef PSRING_EXPERIMENTS_PROBE_PROBE_REPORT_H_
#define PSRING_EXPERIMENTS_PROBE_PROBE_REPORT_H_

#include <optional>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "experiments/probe/cost_model.h"
#include "experiments/probe/probed_link.h"
#include "experiments/probe/step_floor.h"
#include "nlohmann/json_fwd.hpp"

namespace psring {

// What follows for one arm.
struct ArmForecast {
  std::string name;
  std::optional<double> apply_rate;  // Bytes of gradients per second; with servers.
  absl::StatusOr<StepFloor> floor;
  absl::StatusOr<ExchangeCost> cost;
};

struct ProbeReport {
  std::vector<ProbedLink> links;
  double add_rate = 0;
  std::vector<ArmForecast> arms;
};

std::string ReportText(const ProbeReport& report);
std::string ReportJson(const ProbeReport& report);

// As in summary.json (experiments/README.md).
nlohmann::ordered_json ProbedLinksJson(const std::vector<ProbedLink>& probed);

}  // namespace psring

#endif  // PSRING_EXPERIMENTS_PROBE_PROBE_REPORT_H_
