#include "experiments/consistency_config.h"

#include <cmath>
#include <utility>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_split.h"
#include "server/policies.h"

namespace psring {

absl::Status CheckConsistency(const ParameterServerMode& mode, int workers,
                              const std::string& path, const FieldOrigins& origins) {
  const auto wrong = [&](const std::string& field, const std::string& problem,
                         const std::string& allowed) {
    return origins.Error(absl::StrCat(path, ".", field), problem, allowed);
  };
  const Sync::Order order = mode.sync().order();
  if (!Sync::Order_IsValid(order)) {
    return wrong("sync.order", absl::StrCat("is ", int{order}),
                 ValueNames(*Sync::Order_descriptor()));
  }
  if (!ParameterServerMode::Placement_IsValid(mode.placement())) {
    return wrong("placement", absl::StrCat("is ", int{mode.placement()}),
                 ValueNames(*ParameterServerMode::Placement_descriptor()));
  }
  const auto policy = MakePolicy(mode, workers);
  if (!policy.ok()) {
    // "FIELD: PROBLEM; allowed: ALLOWED"
    const std::pair<std::string, std::string> field =
        absl::StrSplit(policy.status().message(), absl::MaxSplits(": ", 1));
    const std::pair<std::string, std::string> problem =
        absl::StrSplit(field.second, absl::MaxSplits("; allowed: ", 1));
    return wrong(field.first, problem.first, problem.second);
  }
  if (!mode.has_stale_updates()) return absl::OkStatus();
  if ((*policy)->promise().rounds) {
    return wrong("stale_updates", "the updates of this mode are rounds, and never stale",
                 "leaving it out");
  }
  const StaleUpdates& stale = mode.stale_updates();
  if (!StaleUpdates::Scale_IsValid(stale.scale())) {
    return wrong("stale_updates.scale", absl::StrCat("is ", int{stale.scale()}),
                 ValueNames(*StaleUpdates::Scale_descriptor()));
  }
  const double compensation = stale.delay_compensation();
  if (!(compensation >= 0 && std::isfinite(compensation))) {
    return wrong("stale_updates.delay_compensation", absl::StrCat("is ", compensation),
                 "a finite number of at least 0");
  }
  if (stale.drop_above() < 0) {
    return wrong("stale_updates.drop_above", absl::StrCat("is ", stale.drop_above()),
                 "at least 0");
  }
  return absl::OkStatus();
}

}  // namespace psring
