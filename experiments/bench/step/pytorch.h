// PyTorch as a contestant of `psring bench step`.
#ifndef PSRING_EXPERIMENTS_BENCH_STEP_PYTORCH_H_
#define PSRING_EXPERIMENTS_BENCH_STEP_PYTORCH_H_

#include <string>
#include <utility>
#include <vector>

#include "absl/status/statusor.h"
#include "absl/time/time.h"
#include "experiments/bench/step/contestants.h"
#include "experiments/bench/step/options.h"
#include "experiments/bench/step/result.h"
#include "experiments/child_processes.h"

namespace psring {

// Starts processes of peers/pytorch_rank.py, anew for each round. One thread, that of the
// child processes.
class Pytorch {
 public:
  struct Programs {
    std::string python = "/usr/bin/python3";
    std::string rank;    // What Python is to run.
    std::string folder;  // For logs and results.
  };

  // Asks Python for its PyTorch. `children` outlives the object and has no other children
  // during its calls.
  //   kFailedPrecondition, exit code kSkipped: there is no Python, or it has no PyTorch
  //   to
  //     compare with; the message says which package is missing.
  static absl::StatusOr<Pytorch> Find(Programs programs, ChildProcesses* children);

  // "1.13.0a0, openblas"
  const std::string& version() const { return version_; }

  // Lets every rank of the contestant make the steps of a round, on the data in that
  // folder; and returns them by rank.
  //   kDataLoss: the ranks have ended with different parameters.
  //   kUnavailable: a rank has failed, with its log; or has not ended in time.
  //   kCancelled: a signal came. kInternal: a result cannot be read.
  absl::StatusOr<std::vector<RankSteps>> Run(const StepBenchOptions& options,
                                             const StepContestant& contestant,
                                             const std::string& data, int round);

 private:
  Pytorch(Programs programs, ChildProcesses* children)
      : programs_(std::move(programs)), children_(children) {}

  // Returns when all have ended, well; else kills those that are left.
  absl::Status AwaitEnd(absl::Duration patience);
  std::string LogOf(const std::string& process) const;

  Programs programs_;
  ChildProcesses* children_;
  std::string version_;
};

}  // namespace psring

#endif  // PSRING_EXPERIMENTS_BENCH_STEP_PYTORCH_H_
