// When each bucket of one step was on its way, on all ranks, beside their backward
// passes.
#ifndef PSRING_EXPERIMENTS_REPORT_EXCHANGE_LINE_H_
#define PSRING_EXPERIMENTS_REPORT_EXCHANGE_LINE_H_

#include <cstdint>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "experiments/arm_result.h"
#include "experiments/sqlite.h"

namespace psring {

// Milliseconds since rank 0 began the step, on its clock.
struct BucketLine {
  int rank = 0;
  int bucket = 0;
  double ready = 0;
  double launched = 0;
  double done = 0;
};

struct BackwardLine {
  int rank = 0;
  double begin = 0;
  double end = 0;
};

struct ExchangeLine {
  std::string arm;
  int64_t step = 0;
  double error_ms = 0;  // Clocks are aligned as well as that.
  int ranks = 0;        // Of the arm; the lines may be of the first ones only.
  std::vector<BackwardLine> backward;
  std::vector<BucketLine> buckets;  // Empty: none was recorded.
};

// Of the step of rank 0 that took the median time, and of at most `most_ranks` ranks.
absl::StatusOr<ExchangeLine> ReadExchangeLine(SqliteConnection& database,
                                              const ArmResult& run, int most_ranks);

}  // namespace psring

#endif  // PSRING_EXPERIMENTS_REPORT_EXCHANGE_LINE_H_
