// Starts the contestants of a benchmark and lets them work in turn.
#ifndef PSRING_EXPERIMENTS_BENCH_CONDUCTOR_H_
#define PSRING_EXPERIMENTS_BENCH_CONDUCTOR_H_

#include <chrono>
#include <cstdint>
#include <map>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/time/time.h"
#include "experiments/bench/channel.h"
#include "experiments/bench/contestants.h"
#include "experiments/child_processes.h"
#include "proto/bench.pb.h"

namespace psring {

// What all ranks of a contestant did at one command.
struct Measured {
  std::vector<int64_t> times_ns;  // Per operation, of the slowest rank.
  int64_t wrong = 0;              // Over all ranks.
  std::string first_wrong;
};

// One contestant at a time works, and the ranks of the others sleep until they are told
// something. One thread, the one in which the processes die if it ends.
//
// Errors name the contestant and the rank: what the rank said failed; kUnavailable for
// one that has ended, with the log where it may have left a reason; kDeadlineExceeded
// with those that did not answer; kCancelled where a signal came, with its exit code.
class Conductor {
 public:
  // Contestants must have started and connected before `start_patience`, however slow the
  // machine.
  explicit Conductor(int ranks, absl::Duration start_patience = absl::Seconds(60))
      : ranks_(ranks), start_patience_(start_patience) {}
  // Kills what still runs.
  ~Conductor() = default;

  // Starts its processes and waits until its ranks are connected with each other. They
  // are known as 0, 1, ... from then on. Returns the version that rank 0 has named.
  absl::StatusOr<std::string> Start(const ContestantPlan& plan);

  // Lets a contestant do what the command says, which it must have done before `timeout`.
  absl::StatusOr<Measured> Measure(int contestant, const BenchMeasure& measure,
                                   absl::Duration timeout);

  // Tells all ranks that there is nothing more to do, and waits until every process has
  // ended, well. Nothing may follow.
  absl::Status Finish();

 private:
  struct Running {
    std::string name;
    std::vector<BenchChannel> channels;  // By rank.
  };

  // Takes in the first message of every rank.
  absl::Status Meet(BenchListener& listener, Running& running,
                    std::vector<BenchHello>* hellos);
  // Tells every rank the same, and gets their replies, by rank.
  absl::StatusOr<std::vector<BenchReply>> Command(Running& running,
                                                  const BenchCommand& command,
                                                  absl::Duration timeout);
  // Blocks until the descriptor, from which a rank is to come, is readable.
  // kDeadlineExceeded with those that are missing.
  absl::Status AwaitRank(const Running& running, int descriptor,
                         std::chrono::steady_clock::time_point deadline);
  // Blocks until one of the descriptors is readable and returns its index; negative ones
  // are ignored. An error where a child has ended or a signal has come;
  // kDeadlineExceeded.
  absl::StatusOr<int> AwaitReadable(const std::vector<int>& descriptors,
                                    std::chrono::steady_clock::time_point deadline);
  // The error of a rank whose channel is closed.
  absl::Status RankLostError(const Running& running, int rank);
  absl::Status EndedError(const EndedChild& child) const;
  const int ranks_;
  const absl::Duration start_patience_;
  ChildProcesses children_;
  std::map<std::string, std::string> logs_;  // By name of the process.
  std::vector<Running> running_;
};

}  // namespace psring

#endif  // PSRING_EXPERIMENTS_BENCH_CONDUCTOR_H_
