// The rows of `psring bench step` for people and for programs. Pure.
#ifndef PSRING_EXPERIMENTS_BENCH_STEP_REPORT_H_
#define PSRING_EXPERIMENTS_BENCH_STEP_REPORT_H_

#include <string>
#include <vector>

#include "experiments/bench/report.h"
#include "experiments/bench/step/options.h"
#include "experiments/bench/step/result.h"
#include "experiments/environment.h"

namespace psring {

// What is trained, as part of a context's environment.
Environment StepWork(const StepBenchOptions& options, const StepSettings& settings);
std::string StepTable(const StepSettings& settings, const std::vector<StepRow>& rows);
// What is printed after the rows.
std::string StepFooter(const BenchContext& context);

std::string StepJson(const BenchContext& context, const StepBenchOptions& options,
                     const StepSettings& settings, const std::vector<StepRow>& rows);

}  // namespace psring

#endif  // PSRING_EXPERIMENTS_BENCH_STEP_REPORT_H_
