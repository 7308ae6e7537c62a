// From measured steps to the rows of `psring bench step`. Pure; each column is defined
// here.
#ifndef PSRING_EXPERIMENTS_BENCH_STEP_RESULT_H_
#define PSRING_EXPERIMENTS_BENCH_STEP_RESULT_H_

#include <cstdint>
#include <optional>
#include <vector>

#include "absl/status/statusor.h"
#include "experiments/arm_records.h"
#include "experiments/bench/step/contestants.h"

namespace psring {

// One step of one rank.
struct StepTiming {
  int64_t total_ns = 0;
  int64_t forward_ns = 0;
  int64_t backward_ns = 0;
  // Waiting for the exchange after backward. None where it cannot be told from backward.
  std::optional<int64_t> exposed_ns = 0;
  int64_t optimizer_ns = 0;
};

// What one contestant did in one round.
struct StepRound {
  std::vector<StepTiming> steps;  // The timed ones, each of the rank that took longest.
  // Mean over ranks of the training loss in the first step of all, and in the last timed
  // one.
  double first_loss = 0;
  double last_loss = 0;
};

// What one rank did in one round, from its first step on.
struct RankSteps {
  std::vector<StepTiming> steps;
  std::vector<double> losses;  // As many.
};

// Of psring's records; by rank.
std::vector<RankSteps> RankStepsOf(const ArmRecords& records);

// Leaves out `warm_up` steps, and those after `iterations` more. kInternal: a rank has
// fewer.
absl::StatusOr<StepRound> RoundOf(const std::vector<RankSteps>& ranks, int warm_up,
                                  int iterations);

// Milliseconds; over the timed steps of all rounds.
struct StepRow {
  StepContestant contestant;
  // Of all ranks, at the median step.
  double samples_per_second = 0;
  double min_ms = 0;
  double median_ms = 0;
  double p99_ms = 0;
  // Means of the parts of the same steps; `other` is the rest of their mean.
  double forward_ms = 0;
  double backward_ms = 0;
  std::optional<double> exposed_ms = {};
  double optimizer_ms = 0;
  double other_ms = 0;
  // Of the last round.
  double first_loss = 0;
  double last_loss = 0;
  // This row's step divided by its reference's: the median over the rounds of the
  // quotient of both medians in that round. Above 1 the reference is faster.
  std::optional<double> ratio = {};
};

// In the order of the contestants, of whom each computes `batch` samples a rank and
// step. rounds[c] are contestant c's, as many for each, at least one, none without steps.
std::vector<StepRow> MakeStepRows(int64_t batch,
                                  const std::vector<StepContestant>& contestants,
                                  const std::vector<std::vector<StepRound>>& rounds);

}  // namespace psring

#endif  // PSRING_EXPERIMENTS_BENCH_STEP_RESULT_H_
