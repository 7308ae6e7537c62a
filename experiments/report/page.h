// The page of a run.
#ifndef PSRING_EXPERIMENTS_REPORT_PAGE_H_
#define PSRING_EXPERIMENTS_REPORT_PAGE_H_

#include <string>
#include <vector>

#include "experiments/arm_runs.h"
#include "experiments/report/contest.h"
#include "experiments/report/curves.h"
#include "experiments/report/exchange_line.h"
#include "experiments/report/page_shell.h"
#include "experiments/report/run_results.h"
#include "experiments/report/traffic_picture.h"
#include "experiments/report/verdict.h"

namespace psring {

// Everything that the page says and shows.
struct PageData {
  RunResults run;
  std::string started;         // In words, of the first run.
  std::vector<ArmRuns> ended;  // Of run.ended.
  std::vector<ArmRuns> all;    // With those that did not come to their end.
  Contest contest;             // Points into `ended`.
  ReportVerdict verdict;
  std::vector<TrafficPicture> pictures;
  std::vector<Curve> losses;
  std::vector<Curve> accuracies;
  std::vector<ExchangeLine> exchanges;
  std::vector<std::string> events;  // Warnings and errors, a line each.
};

// Pure.
std::string PageHtml(const PageData& data, const PageAssets& assets);

}  // namespace psring

#endif  // PSRING_EXPERIMENTS_REPORT_PAGE_H_
