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
#include "experiments/communication.h"
#include "experiments/contributions.h"
#include "experiments/hosts/link_usage.h"
#include "experiments/hosts/validity.h"
#include "experiments/memory_certificate.h"
#include "experiments/planned_buckets.h"
#include "experiments/replica_certificate.h"
#include "experiments/traffic_audit.h"
#include "experiments/wire_use.h"
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
  // Parts of it, which add up to it; experiments/waits.h says what is what.
  double not_ready = 0;
  double peer_late = 0;
  double on_wire = 0;
  double working = 0;
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
  // Of it: because another worker was late, and by rank which.
  double peer_late = 0;
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
  kFinished,  // There was no target, or nothing to learn.
};
// "reached target", "did not reach", "diverged", "finished".
const char* ToString(Convergence convergence);

// Of one run of one arm.
struct ArmResult {
  std::string name;
  std::string mode;       // As ModeOf.
  std::string reduction;  // As DescribeReduction.
  uint64_t seed = 0;
  std::string error;  // What ended it early; empty where it came to its end.
  int64_t steps = 0;
  std::optional<int64_t> restored_step;  // Where it continued from, of `steps`.
  int workers = 0;
  int servers = 0;
  Convergence convergence = Convergence::kFinished;
  double samples_per_second = 0;  // All samples over the training's wall time.
  // Without those of contributions that were dropped.
  double applied_samples_per_second = 0;
  StepTimes step_ms;
  RecordingCost recording;
  Waiting waiting;
  Communication communication;
  // Share of the steps of all ranks that took longer than `compute` wants.
  double late_share = 0;
  bool learns = true;  // Where compute is emulated, there is neither loss nor accuracy.
  WireUse wire;
  // Training loss, mean over ranks and the last (up to) 20 steps, where they had samples.
  double final_loss = 0;
  std::vector<EvaluationPoint> evaluations;
  // `seconds` of the first evaluation at or past the target accuracy.
  std::optional<double> time_to_target_seconds;
  ContributionSummary contributions;
  std::vector<PlannedBucket> buckets;
  int64_t skipped_buckets = 0;  // Whose gradients were not finite, over all ranks.
  std::vector<EndpointTraffic> endpoints;
  // With servers: the payload of the one that has sent most, by their mean. A server
  // sends the parameters that it owns to every worker, so this is how unevenly they own
  // them.
  std::optional<double> server_imbalance;
  std::string hosts;  // The settings of its emulated hosts, in words; empty: none.
  std::optional<LinkUsage> link_usage;  // With such hosts, where bytes moved.
  // Of several workers with such links, where the run came to its end: there was
  // something to measure.
  std::optional<Validity> validity;
  // With servers, of what was evaluated last; else, and where nothing is evaluated and
  // all ranks have the same parameters, of rank 0 after the last step.
  std::optional<uint64_t> parameter_digest;
  // Of rank 0 after each step that was checked, by step (from 0).
  std::map<int64_t, uint64_t> digests;
  // Of each process; empty where it did not come to its end.
  std::vector<ProcessMemory> memory_use;
  // Where the run's own ranks did not have the same parameters.
  std::optional<ReplicaDifference> difference;
  Certificate replica;
  Certificate traffic;
  Certificate memory;
  Certificate consistency;

  bool is_void() const { return validity && validity->is_void(); }
};

// `outcome` is how the run ended: well, or early because of a gradient that is not
// finite; then certificates do not apply, but that replicas differed before is a failure
// all the same. The replica certificate compares the run's own ranks; CompareReplicas
// (experiments/compare_replicas.h) adds the other arms.
ArmResult Summarize(const JobSpec& spec, const ArmRecords& records,
                    const absl::Status& outcome);

// The first that fails; null: none does.
const Certificate* FailedCertificate(const ArmResult& result);

}  // namespace psring

#endif  // PSRING_EXPERIMENTS_ARM_RESULT_H_
