#include "experiments/consistency_certificate.h"

#include <algorithm>
#include <optional>
#include <string>

#include "absl/strings/str_cat.h"
#include "common/job_plan.h"
#include "experiments/arm_mode.h"

namespace psring {
namespace {

// What is wrong, or nothing.
using Fault = std::optional<std::string>;

class Checker {
 public:
  Checker(const JobSpec& spec, const ConsistencyPromise& promise)
      : spec_(spec), promise_(promise) {}

  Fault CheckSlot(const SlotTotals& slot) const {
    if (Fault fault = CheckContributions(slot)) return fault;
    if (Fault fault = CheckUpdates(slot)) return fault;
    for (const auto& [rank, totals] : slot.workers) {
      if (!promise_.drops && totals.late + totals.stale > 0) {
        return absl::StrCat("dropped ", totals.late + totals.stale,
                            " contributions of worker ", rank,
                            ", and this mode drops none");
      }
      if (promise_.in_turn && totals.out_of_turn > 0) {
        return absl::StrCat("applied ", totals.out_of_turn, " contributions of worker ",
                            rank, " out of turn");
      }
      if (promise_.clock_lag && totals.clock_lag_max > *promise_.clock_lag) {
        return absl::StrCat("let worker ", rank, " be ", totals.clock_lag_max,
                            " steps ahead of the slowest, more than ",
                            *promise_.clock_lag);
      }
    }
    return std::nullopt;
  }

  // Of all slots together. With a promise of d, contributions have staleness
  // min(version, d): where it is less than d, they were computed from version 0.
  Fault CheckStaleness(const ArmRecords& records) const {
    for (const auto& [rank, bins] : records.staleness) {
      for (const auto& [staleness, totals] : bins) {
        if (promise_.most_staleness && staleness > *promise_.most_staleness) {
          return absl::StrCat("worker ", rank, " has contributions of staleness ",
                              staleness, ", and more than ", *promise_.most_staleness,
                              " is dropped");
        }
        if (!promise_.staleness || staleness == *promise_.staleness) continue;
        if (staleness < *promise_.staleness && totals.count == totals.of_version_0) {
          continue;
        }
        return absl::StrCat("worker ", rank, " has contributions of staleness ",
                            staleness, ", promised is ", *promise_.staleness);
      }
    }
    return std::nullopt;
  }

 private:
  Fault CheckContributions(const SlotTotals& slot) const {
    int64_t made = 0;
    for (const auto& [rank, totals] : slot.workers) {
      made += totals.made;
      if (totals.made != totals.steps) {
        return absl::StrCat("counted ", totals.made, " contributions of worker ", rank,
                            " to ", totals.steps, " steps");
      }
      const int64_t steps = spec_.steps() - FirstStepOf(spec_, rank);
      if (promise_.even && totals.made != steps) {
        return absl::StrCat("counted ", totals.made, " contributions of worker ", rank,
                            " in a run of ", steps, " steps");
      }
    }
    const int64_t expected = ContributionsToMake(spec_);
    if (made == expected) return std::nullopt;
    return absl::StrCat("counted ", made, " contributions of ", expected);
  }

  // A worker that has left has no contribution under way, and the others have at most one
  // each, so no more than `workers` updates can lack one.
  Fault CheckUpdates(const SlotTotals& slot) const {
    int64_t updates = 0;
    int64_t versions = 0;
    for (const auto& [contributions, totals] : slot.updates) {
      updates += totals.updates;
      versions = std::max(versions, totals.last_version + 1);
    }
    const int64_t first = spec_.restored().version();
    if (updates != versions - first) {
      return absl::StrCat("has ", updates, " updates for the versions up to ", versions,
                          first == 0 ? "" : absl::StrCat(" from ", first));
    }
    const int64_t may_lack = promise_.lockstep ? 0 : spec_.workers();
    for (const auto& [contributions, totals] : slot.updates) {
      if (contributions == promise_.contributions_per_update) continue;
      if (contributions < promise_.contributions_per_update &&
          totals.first_version >= versions - may_lack) {
        continue;
      }
      return absl::StrCat("was at version ", totals.first_version, " when ",
                          contributions, " contributions were applied, and not ",
                          promise_.contributions_per_update);
    }
    return std::nullopt;
  }

  const JobSpec& spec_;
  const ConsistencyPromise& promise_;
};

}  // namespace

Certificate CertifyConsistency(const JobSpec& spec, const ArmRecords& records) {
  const std::optional<ConsistencyPromise> promise = PromiseOf(spec);
  if (!promise) return {.verdict = Verdict::kNotApplicable, .why = "no servers"};
  const Checker checker(spec, *promise);
  const SlotPlan plan = PlanJob(spec).slots;
  int64_t clock_lag = 0;
  for (const Slot& slot : plan.slots) {
    const auto found = records.slots.find(slot.index);
    const SlotTotals& totals =
        found == records.slots.end() ? SlotTotals() : found->second;
    if (const Fault fault = checker.CheckSlot(totals)) {
      return {.verdict = Verdict::kFail,
              .why = absl::StrCat("slot ", slot.index, " ", *fault)};
    }
    for (const auto& [rank, worker] : totals.workers) {
      clock_lag = std::max(clock_lag, worker.clock_lag_max);
    }
  }
  if (const Fault fault = checker.CheckStaleness(records)) {
    return {.verdict = Verdict::kFail, .why = *fault};
  }
  std::string why = absl::StrCat("all ", ContributionsToMake(spec),
                                 " contributions counted once in every slot");
  if (promise->staleness) {
    int64_t most = 0;
    for (const auto& [rank, bins] : records.staleness) {
      if (!bins.empty()) most = std::max(most, bins.rbegin()->first);
    }
    absl::StrAppend(&why, ", staleness ", most);
    if (most < *promise->staleness) {
      absl::StrAppend(&why, " of ", *promise->staleness);
    }
  }
  if (promise->clock_lag) {
    absl::StrAppend(&why, ", clock lag ", clock_lag, " of ", *promise->clock_lag);
  }
  return {.verdict = Verdict::kPass, .why = why};
}

}  // namespace psring
