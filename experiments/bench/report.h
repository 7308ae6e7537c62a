// The rows of a benchmark for people and for programs. Pure.
#ifndef PSRING_EXPERIMENTS_BENCH_REPORT_H_
#define PSRING_EXPERIMENTS_BENCH_REPORT_H_

#include <string>
#include <vector>

#include "experiments/bench/result.h"
#include "experiments/environment.h"
#include "nlohmann/json.hpp"

namespace psring {

// What ran, and on what.
struct BenchContext {
  std::string command;
  Environment environment;  // Machine and versions, those of peers included.
  std::string load_before;
  std::string load_after;
  int ranks = 0;  // 0: what is measured has none.
};

// Three significant digits or all before the point, whichever are more.
std::string Significant(double value);

// What is printed before the rows: what can be known by then.
std::string BenchHeader(const BenchContext& context);
std::string BenchTable(const std::vector<BenchRow>& rows);
// What is printed after them: units, and the load by then.
std::string BenchFooter(const BenchContext& context);

// The context's part of what is written as JSON; the rows come after it.
nlohmann::ordered_json ContextJson(const BenchContext& context);

std::string BenchJson(const BenchContext& context, const std::vector<BenchRow>& rows);
std::string BenchCsv(const std::vector<BenchRow>& rows);

}  // namespace psring

#endif  // PSRING_EXPERIMENTS_BENCH_REPORT_H_
