// What updates must give, computed one element after the other. Pure.
#ifndef PSRING_EXPERIMENTS_BENCH_APPLY_REFERENCE_H_
#define PSRING_EXPERIMENTS_BENCH_APPLY_REFERENCE_H_

#include <cstdint>
#include <span>
#include <string>
#include <vector>

#include "common/partition.h"
#include "common/step_constants.h"
#include "experiments/bench/apply/plan.h"
#include "proto/experiment.pb.h"

namespace psring {

struct WrongElements {
  int64_t count = 0;
  std::string first;  // Which one, and how; empty without any.
};

// A bucket after some updates with the inputs of inputs.h: plain loops over the formulas
// of proto/experiment.proto, operation by operation in the order that bits depend on
// (server/round_fold.h, common/optimizer.h), and none of the code that is measured.
class ApplyReference {
 public:
  // `bucket` are its elements of the flat buffer.
  ApplyReference(const ApplyCase& row, Range bucket, int64_t updates);

  // Of the parameter at this element of the flat buffer.
  float At(int64_t element) const;
  // How many of these parameters, the first of which is the flat buffer's `begin`, have
  // other bits.
  WrongElements Compare(int64_t begin, std::span<const float> parameters) const;

 private:
  float MeanAt(int64_t element) const;

  const int workers_;
  const Optimizer settings_;
  const Range bucket_;
  std::vector<StepConstants> constants_;  // Of each update.
};

}  // namespace psring

#endif  // PSRING_EXPERIMENTS_BENCH_APPLY_REFERENCE_H_
