// The rows of `psring bench push-pull` for people and for programs. Pure.
#ifndef PSRING_EXPERIMENTS_BENCH_PUSH_PULL_REPORT_H_
#define PSRING_EXPERIMENTS_BENCH_PUSH_PULL_REPORT_H_

#include <string>
#include <vector>

#include "experiments/bench/push_pull/result.h"
#include "experiments/bench/report.h"
#include "experiments/environment.h"
#include "proto/bench.pb.h"

namespace psring {

// What each contestant does, in words.
Environment PushPullWork(const PushPullJob& job);

std::string PushPullTable(const std::vector<PushPullRow>& rows);
// Nothing where there are none.
std::string PushPullRatioTable(const std::vector<PushPullRatio>& ratios);
std::string PushPullFooter(const BenchContext& context);

std::string PushPullJson(const BenchContext& context, const PushPullJob& job,
                         const std::vector<PushPullRow>& rows,
                         const std::vector<PushPullRatio>& ratios);
std::string PushPullCsv(const std::vector<PushPullRow>& rows);

}  // namespace psring

#endif  // PSRING_EXPERIMENTS_BENCH_PUSH_PULL_REPORT_H_
