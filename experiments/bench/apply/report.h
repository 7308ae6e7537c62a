// The rows of `psring bench apply` for people and for programs. Pure.
#ifndef PSRING_EXPERIMENTS_BENCH_APPLY_REPORT_H_
#define PSRING_EXPERIMENTS_BENCH_APPLY_REPORT_H_

#include <string>
#include <vector>

#include "experiments/bench/apply/options.h"
#include "experiments/bench/apply/result.h"
#include "experiments/bench/report.h"
#include "experiments/environment.h"

namespace psring {

// What is measured and with which memory, as part of a context's environment.
Environment ApplyWork(const ApplyOptions& options, const ApplySettings& settings,
                      const ApplyMachine& machine);
std::string ApplyTable(const std::vector<ApplyRow>& rows);
// What is printed after the rows.
std::string ApplyFooter(const BenchContext& context);

std::string ApplyJson(const BenchContext& context, const ApplyOptions& options,
                      const ApplySettings& settings, const std::vector<ApplyRow>& rows);

}  // namespace psring

#endif  // PSRING_EXPERIMENTS_BENCH_APPLY_REPORT_H_
