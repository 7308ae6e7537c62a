// A run folder, back to what its comparison had in hand when it ended.
#ifndef PSRING_EXPERIMENTS_REPORT_RUN_RESULTS_H_
#define PSRING_EXPERIMENTS_REPORT_RUN_RESULTS_H_

#include <string>
#include <utility>
#include <vector>

#include "absl/status/statusor.h"
#include "experiments/arm_result.h"
#include "experiments/expectations.h"
#include "proto/coordinator.pb.h"
#include "proto/experiment.pb.h"

namespace psring {

struct RunResults {
  std::string folder;
  Experiment experiment;
  std::vector<JobSpec> specs;  // Of `ended` and `unfinished`; may be more.
  // Runs that came to their end, and those that did not: their `error` says why, and they
  // have what was recorded until then.
  std::vector<ArmResult> ended;
  std::vector<ArmResult> unfinished;
  std::vector<std::string> not_run;  // Arms of which there is no record at all.
  std::vector<ExpectationResult> expectations;
  // Of the machine, as environment.json has it.
  std::vector<std::pair<std::string, std::string>> environment;

  std::string database() const { return folder + "/run.db"; }
};

// `run` is a run folder or its run.db; it may be still written. InvalidArgument: it is no
// such thing, or lacks a file that every run has. Other errors as ReadArm's.
absl::StatusOr<RunResults> ReadRunResults(const std::string& run);

// Parts the results of a comparison into `ended` and `unfinished`.
void SetResults(const std::vector<ArmResult>& results, RunResults* run);

// Fills in `environment` from the folder's file.
absl::Status ReadEnvironment(RunResults* run);

}  // namespace psring

#endif  // PSRING_EXPERIMENTS_REPORT_RUN_RESULTS_H_
