// From an arm's records to its results. Pure; measures are defined beside their fields.
#ifndef PSRING_EXPERIMENTS_ARM_RESULT_H_
#define PSRING_EXPERIMENTS_ARM_RESULT_H_

#include <cstdint>
#include <map>
#include <optional>
#include <string>
#include <vector>

#include "absl/time/time.h"
#include "proto/coordinator.pb.h"
#include "proto/record.pb.h"

namespace psring {

// What an arm's results are made of. experiments/run_reader.h reads it from run.db.
struct ArmRecords {
  std::vector<std::vector<StepRecord>> steps;    // By rank, then by step.
  std::map<std::string, TrafficRecord> traffic;  // By process.
  std::vector<EvaluationRecord> evaluations;
  // Processor time of all recording outside the training threads.
  absl::Duration recording = absl::ZeroDuration();
};

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

// The model after `step` steps.
struct EvaluationPoint {
  int64_t step = 0;
  double seconds = 0;  // Training time until the slowest rank had made the step.
  int64_t bytes = 0;   // Payload sent by all processes until then.
  double loss = 0;     // Mean over the test set.
  double accuracy = 0;
};

struct EndpointTraffic {
  std::string name;
  std::string role;
  // Over all steps; the first distribution of parameters is apart.
  int64_t payload_out = 0;
  int64_t payload_in = 0;
  int64_t formula_out = 0;
  int64_t formula_in = 0;
  int64_t initial_out = 0;
  int64_t initial_in = 0;
};

enum class Verdict { kPass, kFail, kNotApplicable };
const char* ToString(Verdict verdict);

struct Certificate {
  Verdict verdict = Verdict::kNotApplicable;
  std::string why;  // What failed, or what was compared.
};

struct ArmResult {
  std::string name;
  std::string mode;  // As ModeOf.
  int64_t steps = 0;
  int workers = 0;
  int servers = 0;
  double samples_per_second = 0;  // All samples over the training's wall time.
  StepTimes step_ms;
  RecordingCost recording;
  double final_loss = 0;  // Training loss, mean over ranks and the last (up to) 20 steps.
  std::vector<EvaluationPoint> evaluations;
  // `seconds` of the first evaluation at or past the target accuracy.
  std::optional<double> time_to_target_seconds;
  std::vector<EndpointTraffic> endpoints;
  std::optional<uint64_t> parameter_digest;  // Of rank 0 after the last step.
  // Of rank 0 after each step that was checked, by step (from 0).
  std::map<int64_t, uint64_t> digests;
  Certificate replica;
  Certificate traffic;
};

// "parameter server, sync, ring order", "ring all-reduce", "local".
std::string ModeOf(const JobSpec& spec);

// `records` are those of an arm that ended well. The replica
// certificate compares the arm's own ranks; CompareReplicas adds the other arms.
ArmResult Summarize(const JobSpec& spec, const ArmRecords& records);

// Arms that must end in the same bits (same number of workers and, through one
// experiment, same buckets and training; ring, or synchronous servers that add in ring
// order) are compared with the first such arm at every step that both checked.
void CompareReplicas(const std::vector<JobSpec>& specs, std::vector<ArmResult>* arms);

}  // namespace psring

#endif  // PSRING_EXPERIMENTS_ARM_RESULT_H_
