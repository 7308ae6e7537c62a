// The files that a benchmark writes beside what it prints.
#ifndef PSRING_EXPERIMENTS_BENCH_OUTPUTS_H_
#define PSRING_EXPERIMENTS_BENCH_OUTPUTS_H_

#include <string>
#include <utility>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "experiments/bench/options.h"
#include "experiments/bench/report.h"
#include "experiments/bench/result.h"
#include "proto/experiment.pb.h"

namespace psring {

// One thread.
class BenchOutputs {
 public:
  // Finds out before anything is measured whether the files that the options name can be
  // written, and changes none. kInvalidArgument, with the flag: one cannot, or there is
  // nothing to choose from for a table, or the table to update is not one.
  static absl::StatusOr<BenchOutputs> Prepare(const BenchOptions& options);

  // Writes all files, but for the table where `first_wrong` names a wrong result; once.
  //   kDataLoss, exit code kCheckFailed: there is one, whether files were written or not.
  //   kInternal: a file could not be written.
  absl::Status Write(const BenchContext& context, const std::vector<BenchRow>& rows,
                     const std::string& first_wrong);

 private:
  BenchOutputs(const BenchOptions& options, AlgorithmTable table)
      : json_path_(options.json_path),
        csv_path_(options.csv_path),
        table_path_(options.table_path),
        table_(std::move(table)) {}

  // Empty: none.
  std::string json_path_;
  std::string csv_path_;
  std::string table_path_;
  AlgorithmTable table_;  // What its file has already.
};

}  // namespace psring

#endif  // PSRING_EXPERIMENTS_BENCH_OUTPUTS_H_
