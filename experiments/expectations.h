// What an experiment expects of its results. Pure.
#ifndef PSRING_EXPERIMENTS_EXPECTATIONS_H_
#define PSRING_EXPERIMENTS_EXPECTATIONS_H_

#include <string>
#include <vector>

#include "absl/status/status.h"
#include "experiments/arm_result.h"
#include "experiments/certificate.h"
#include "experiments/config_text.h"
#include "proto/experiment.pb.h"

namespace psring {

// OK, or the first thing that is wrong with the experiment's expectations: a figure or an
// arm that there is not, too short a list, or a range without numbers. The rest of the
// experiment has been checked; `origins` tells where things stand.
absl::Status CheckExpectationSettings(const Experiment& experiment,
                                      const FieldOrigins& origins);

struct ExpectationResult {
  std::string kind;         // "monotone", "flat", "ratio" or "crossover".
  std::string figure = "";  // "step_ms_p50"
  // Not applicable where one of its arms was not run.
  Verdict verdict = Verdict::kNotApplicable;
  // One line: what is expected, and the figures of its arms.
  std::string text;
};

// One for each expectation, in order. `runs` are those of a comparison that came to its
// end. An arm that a gradient which is not finite ended early has no figures, and one
// that is void (hosts/validity.h) none that count: nothing that is expected of them is
// met.
std::vector<ExpectationResult> CheckExpectations(const Experiment& experiment,
                                                 const std::vector<ArmResult>& runs);

// A line for each, for people; empty where there are none.
std::string ExpectationLines(const std::vector<ExpectationResult>& results);

// OK where none fails, else DataLoss (exit code 3).
absl::Status StatusOf(const std::vector<ExpectationResult>& results);

}  // namespace psring

#endif  // PSRING_EXPERIMENTS_EXPECTATIONS_H_
