// From an arm's records to its results. Pure; measures are defined beside their fields.
#ifndef PSRING_EXPERIMENTS_ARM_RESULT_H_
#define PSRING_EXPERIMENTS_ARM_RESULT_H_

#include <cstdint>
#include <map>
#include <optional>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "experiments/arm_records.h"
#include "experiments/certificate.h"
#include "experiments/contributions.h"
#include "experiments/hosts/link_usage.h"
#include "experiments/planned_buckets.h"
#include "experiments/traffic_audit.h"
#include "proto/coordinator.pb.h"

namespace psring {

// Milliseconds. Percentiles are of the wall time of a step over all ranks and steps; the
// parts are means over the same, and add up to `mean`.
struct StepTimes {
  double p50 = 0;
  double p99 = 0;
  double mean = 0;
  double data = 0;
  double forward = 0;
  double backward = 0;
  double exposed = 0;
  double optimizer = 0;
  double unaccounted = 0;
};

// What the recording itself cost, as shares of the time of all steps of all ranks.
struct RecordingCost {
  double training_thread_share = 0;  // Time in the training threads.
  // Processor time of sending, taking in and storing records, in all processes.
  double processor_share = 0;
};

// As shares of the time of all steps of all ranks.
struct Waiting {
  double exposed = 0;
  // Of it: for another worker's gradients, and by rank for whose, where servers know. The
  // rest is bytes on the wire and work of servers.
  double for_others = 0;
  std::map<int, double> for_worker;
};

// The model after `step` steps.
struct EvaluationPoint {
  int64_t step = 0;
  // Training time until it was there: with servers, until its last slot was; else until
  // the slowest rank had made the step.
  double seconds = 0;
  // Payload sent by all processes in the steps that had ended by then; where all workers
  // make the same steps, in those that made the model.
  int64_t bytes = 0;
  double loss = 0;  // Mean over the test set.
  double accuracy = 0;
  // Highest minus lowest version of a slot; 0 without servers.
  int64_t version_skew = 0;
};

enum class Convergence {
  kReachedTarget,
  kDidNotReach,
  // A loss was not finite, or the training loss ended no lower than it began, or a
  // gradient that was not finite ended the arm.
  kDiverged,
  kFinished,  // There was no target.
};
// "reached target", "did not reach", "diverged", "finished".
const char* ToString(Convergence convergence);

// Of one run of one arm.
struct ArmResult {
  std::string name;
  std::string mode;  // As ModeOf.
  uint64_t seed = 0;
  std::string error;  // What ended it early; empty where it came to its end.
  int64_t steps = 0;
  int workers = 0;
  int servers = 0;
  Convergence convergence = Convergence::kFinished;
  double samples_per_second = 0;  // All samples over the training's wall time.
  // Without those of contributions that were dropped.
  double applied_samples_per_second = 0;
  StepTimes step_ms;
  RecordingCost recording;
  Waiting waiting;
  double final_loss = 0;  // Training loss, mean over ranks and the last (up to) 20 steps.
  std::vector<EvaluationPoint> evaluations;
  // `seconds` of the first evaluation at or past the target accuracy.
  std::optional<double> time_to_target_seconds;
  ContributionSummary contributions;
  std::vector<PlannedBucket> buckets;
  int64_t skipped_buckets = 0;  // Whose gradients were not finite, over all ranks.
  std::vector<EndpointTraffic> endpoints;
  std::string hosts;  // The settings of its emulated hosts, in words; empty: none.
  std::optional<LinkUsage> link_usage;  // With such hosts, where bytes moved.
  // With servers, of what was evaluated last; else of rank 0 after the last step.
  std::optional<uint64_t> parameter_digest;
  // Of rank 0 after each step that was checked, by step (from 0).
  std::map<int64_t, uint64_t> digests;
  Certificate replica;
  Certificate traffic;
  Certificate consistency;
};

// `outcome` is how the run ended: well, or early because of a gradient that is not
// finite; then certificates do not apply. The replica certificate compares the run's own
// ranks; CompareReplicas (experiments/compare_replicas.h) adds the other arms.
ArmResult Summarize(const JobSpec& spec, const ArmRecords& records,
                    const absl::Status& outcome);

}  // namespace psring

#endif  // PSRING_EXPERIMENTS_ARM_RESULT_H_
